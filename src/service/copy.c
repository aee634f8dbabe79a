/* copy.c: see copy.h. */
#include "service/app.h"

void *copier_bytes(struct copier to, const void *from, size_t len)
{
    void *copy = to.arena != NULL ? coney_arena_alloc(to.arena, len) : NULL;
    if (copy == NULL)
        *to.out_of_memory = true;
    else if (from != NULL && len > 0)
        memcpy(copy, from, len);
    else
        memset(copy, 0, len);
    return copy;
}

const char *copier_text(struct copier to, const char *text)
{
    return text != NULL ? copier_bytes(to, text, strlen(text) + 1) : NULL;
}

static bool content_is_bytes(uint8_t type)
{
    return type >= CONEY_VALUE_UUID;
}

const coney_field *copier_fields(struct copier to, const coney_field *fields, size_t count)
{
    if (fields == NULL || count == 0)
        return NULL;
    coney_field *copies = copier_bytes(to, fields, count * sizeof *fields);
    for (size_t i = 0; copies != NULL && i < count; i++) {
        coney_field *field = &copies[i];
        field->key.data = copier_bytes(to, field->key.data, field->key.len);
        if (content_is_bytes(field->value.type))
            field->value.as.bytes.data = copier_bytes(to, field->value.as.bytes.data, field->value.as.bytes.len);
    }
    return *to.out_of_memory ? NULL : copies;
}

static struct copier copier_of(coney_app *app)
{
    return (struct copier){.arena = app->memory, .out_of_memory = &app->out_of_memory};
}

const char *app_copy_text(coney_app *app, const char *text)
{
    return copier_text(copier_of(app), text);
}

void *app_copy_bytes(coney_app *app, const void *from, size_t len)
{
    return copier_bytes(copier_of(app), from, len);
}

const coney_field *app_copy_fields(coney_app *app, const coney_field *fields, size_t count)
{
    return copier_fields(copier_of(app), fields, count);
}

const char *const *app_copy_list(coney_app *app, const char *const *list)
{
    size_t count = 0;
    while (list != NULL && list[count] != NULL)
        count++;
    const char **copies = count > 0 ? app_copy_bytes(app, NULL, (count + 1) * sizeof *copies) : NULL;
    for (size_t i = 0; copies != NULL && i < count; i++)
        copies[i] = app_copy_text(app, list[i]);
    return copies;
}

const coney_tls_options *app_copy_tls(coney_app *app, const coney_tls_options *tls)
{
    coney_tls_options *copy = tls != NULL ? app_copy_bytes(app, tls, sizeof *tls) : NULL;
    if (copy == NULL)
        return NULL;
    copy->ca_file = app_copy_text(app, tls->ca_file);
    copy->ca_path = app_copy_text(app, tls->ca_path);
    copy->certificate = app_copy_text(app, tls->certificate);
    copy->private_key = app_copy_text(app, tls->private_key);
    copy->pkcs12_file = app_copy_text(app, tls->pkcs12_file);
    copy->key_password = app_copy_text(app, tls->key_password);
    copy->server_name = app_copy_text(app, tls->server_name);
    return copy;
}

bool app_take_options(void *ours, size_t ours_size, const void *theirs, size_t size)
{
    memset(ours, 0, ours_size);
    if (theirs == NULL)
        return true;
    memcpy(ours, theirs, size < ours_size ? size : ours_size);
    const uint8_t *bytes = theirs;
    for (size_t i = ours_size; i < size; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}
