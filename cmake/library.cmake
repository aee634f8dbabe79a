# libconey, shared and static, from the objects of all rooms; both show coney_* only. Neither exists while no room has sources.
# coney_inside is the same with all its names, for tests and fuzzers.
set(objects)
foreach(room IN LISTS CONEY_ROOMS)
    string(REPLACE "/" "_" target room_${room})
    if(TARGET ${target})
        list(APPEND objects $<TARGET_OBJECTS:${target}>)
    endif()
endforeach()
if(NOT objects)
    return()
endif()

set(sanitized FALSE)
if("${CMAKE_C_FLAGS}" MATCHES "-fsanitize")
    set(sanitized TRUE)
endif()

add_library(coney SHARED ${objects})
set_target_properties(coney PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINKER_LANGUAGE C
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/coney.map)
# It stays loaded: a thread of its resolver may run on after the last environment was closed.
target_link_options(coney PRIVATE -Wl,-z,nodelete -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/coney.map
    $<$<NOT:$<BOOL:${sanitized}>>:-Wl,-z,defs>)
target_link_libraries(coney PRIVATE ${CONEY_LINKS})

add_library(coney_inside STATIC ${objects})
set_target_properties(coney_inside PROPERTIES LINKER_LANGUAGE C)

# One object, so that the names that rooms share can be made local: none of them meets a name of the program.
add_custom_command(OUTPUT coney.o DEPENDS coney_inside VERBATIM
    COMMAND ${CMAKE_LINKER} -r --whole-archive $<TARGET_FILE:coney_inside> -o coney.o
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden coney.o)
add_library(coney_static STATIC coney.o)
set_target_properties(coney_static PROPERTIES OUTPUT_NAME coney LINKER_LANGUAGE C)

foreach(library coney_static coney_inside)
    target_link_libraries(${library} PRIVATE ${CONEY_LINKS})
endforeach()
foreach(library coney coney_static)
    add_library(coney::${library} ALIAS ${library})
endforeach()
foreach(library coney coney_static coney_inside)
    target_include_directories(${library} INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
