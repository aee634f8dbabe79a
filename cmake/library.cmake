# libconey: the clients. libconey_service: the framework of services. Both shared and static, and all four show coney_* only;
# libconey_service.a holds the clients too, so a program links one of the two archives. None exists while its rooms have no sources.
# coney_inside is everything with all its names, for tests and fuzzers.
set(CONEY_SERVICE_ROOMS codec service transport testkit)
set(client_objects)
set(service_objects)
foreach(room IN LISTS CONEY_ROOMS)
    string(REPLACE "/" "_" target room_${room})
    if(NOT TARGET ${target})
        continue()
    elseif(room IN_LIST CONEY_SERVICE_ROOMS)
        list(APPEND service_objects $<TARGET_OBJECTS:${target}>)
    else()
        list(APPEND client_objects $<TARGET_OBJECTS:${target}>)
    endif()
endforeach()
if(NOT client_objects)
    return()
endif()

set(sanitized FALSE)
if("${CMAKE_C_FLAGS}" MATCHES "-fsanitize")
    set(sanitized TRUE)
endif()

# It stays loaded: a thread of its resolver, or what it does at a fork, may outlive the last environment.
function(coney_shared_library name)
    set(map ${PROJECT_SOURCE_DIR}/cmake/${name}.map)
    add_library(${name} SHARED ${ARGN})
    set_target_properties(${name} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINKER_LANGUAGE C
        LINK_DEPENDS ${map})
    target_link_options(${name} PRIVATE -Wl,-z,nodelete -Wl,--version-script=${map} $<$<NOT:$<BOOL:${sanitized}>>:-Wl,-z,defs>)
endfunction()

# An archive with all names of its objects, from which programs of this build link.
function(coney_archive name)
    add_library(${name} STATIC ${ARGN})
    set_target_properties(${name} PROPERTIES LINKER_LANGUAGE C)
endfunction()

# NAME_static, the library to install, from an archive: one object, so that the names that rooms share can be made local and
# none of them meets a name of the program.
function(coney_static_library name archive)
    add_custom_command(OUTPUT ${name}.o DEPENDS ${archive} VERBATIM
        COMMAND ${CMAKE_LINKER} -r --whole-archive $<TARGET_FILE:${archive}> -o ${name}.o
        COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${name}.o)
    add_library(${name}_static STATIC ${name}.o)
    set_target_properties(${name}_static PROPERTIES OUTPUT_NAME ${name} LINKER_LANGUAGE C)
endfunction()

coney_shared_library(coney ${client_objects})
coney_archive(coney_clients ${client_objects})
coney_static_library(coney coney_clients)
coney_archive(coney_inside ${client_objects} ${service_objects})
set(public coney coney_static)
set(inside coney_clients coney_inside)

# The shared framework has the public functions of room base from libconey.so, and copies of the hidden ones that it calls: of the
# archive, which comes after, the linker takes only what libconey.so does not show. symbols_of_coney_service holds it to that.
if(service_objects)
    coney_shared_library(coney_service ${service_objects})
    coney_archive(coney_base $<TARGET_OBJECTS:room_base>)
    set_target_properties(coney_service PROPERTIES INSTALL_RPATH "\$ORIGIN") # libconey.so lies beside it
    target_link_libraries(coney_service PUBLIC coney PRIVATE coney_base ${CONEY_CODEC_LINKS} Threads::Threads)
    coney_static_library(coney_service coney_inside)
    list(APPEND public coney_service coney_service_static)
    foreach(library coney_service_static coney_inside)
        target_link_libraries(${library} PRIVATE ${CONEY_CODEC_LINKS})
    endforeach()
endif()

foreach(library IN LISTS public inside)
    if(NOT library STREQUAL "coney_service")
        target_link_libraries(${library} PRIVATE ${CONEY_LINKS})
    endif()
    target_include_directories(${library} INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
foreach(library IN LISTS public)
    string(REGEX REPLACE "^coney_(service)" "\\1" name ${library})
    set_target_properties(${library} PROPERTIES EXPORT_NAME ${name})
    add_library(coney::${name} ALIAS ${library})
endforeach()
