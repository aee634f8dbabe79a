# libconey, shared (exports only coney_*) and static, from the objects of all rooms. Neither exists while no room has sources.
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
target_link_options(coney PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/coney.map
    $<$<NOT:$<BOOL:${sanitized}>>:-Wl,-z,defs>)
target_link_libraries(coney PRIVATE PkgConfig::LIBDEFLATE Threads::Threads)

add_library(coney_static STATIC ${objects})
set_target_properties(coney_static PROPERTIES OUTPUT_NAME coney LINKER_LANGUAGE C)
target_link_libraries(coney_static PRIVATE PkgConfig::LIBDEFLATE Threads::Threads)

foreach(library coney coney_static)
    add_library(coney::${library} ALIAS ${library})
    target_include_directories(${library} INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
