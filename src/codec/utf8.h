/* utf8.h: whether bytes are UTF-8 (RFC 3629: no surrogates, nothing longer than needed). Any thread. */
#ifndef CONEY_CODEC_UTF8_H
#define CONEY_CODEC_UTF8_H

#include <coney/coney.h>

bool utf8_valid(coney_bytes bytes);

#endif
