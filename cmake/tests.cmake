# Every X_test.c is a test program X_test. Labels: unit, peer (a scripted peer), broker (the shared node), node (a node of its
# own), install, and house (headers, layers, symbols).
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)

# Only what hangs is ended: a test takes seconds, but machines are busy and sanitizers slow.
set(unit_timeout 180)
set(test_timeout 480)

# A unit test links the objects of its own room and of those that the room knows, so a broken room stops only its own.
foreach(room IN LISTS CONEY_ROOMS)
    coney_room_targets(${room} targets)
    file(GLOB_RECURSE tests CONFIGURE_DEPENDS src/${room}/*_test.c)
    foreach(source IN LISTS tests)
        get_filename_component(name ${source} NAME_WE)
        if(TARGET ${name})
            string(REPLACE "/" "_" name ${room}_${name})
        endif()
        add_executable(${name} ${source})
        set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY unit)
        target_include_directories(${name} PRIVATE include src)
        target_link_libraries(${name} PRIVATE ${targets} PkgConfig::CMOCKA ${CONEY_LINKS} coney_warnings)
        add_test(NAME ${name} COMMAND ${name})
        set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT ${unit_timeout})
    endforeach()
endforeach()

foreach(source IN LISTS cli_tests)
    get_filename_component(name ${source} NAME_WE)
    add_executable(cli_${name} ${source})
    set_target_properties(cli_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY unit)
    target_link_libraries(cli_${name} PRIVATE room_cli PkgConfig::CMOCKA coney_warnings)
    add_test(NAME cli_${name} COMMAND cli_${name})
    set_tests_properties(cli_${name} PROPERTIES LABELS unit TIMEOUT ${unit_timeout})
endforeach()

# test/: files without _test are shared by the tests; the name's first word says what a test needs.
set(test_environment CONEY_BROKER_SCRIPT=${PROJECT_SOURCE_DIR}/script/broker CONEY_EXAMPLES=${PROJECT_BINARY_DIR}/examples
    CONEY_TOOL=${PROJECT_BINARY_DIR}/bin/coney)

function(coney_describe_test name)
    set(label integration)
    if(name MATCHES "^(peer|broker|node)_")
        set(label ${CMAKE_MATCH_1})
    endif()
    set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT ${test_timeout} SKIP_RETURN_CODE 77
        ENVIRONMENT "${test_environment}")
    # What takes longest begins first; tests with a node of their own take turns, for its memory: two at a time, one of each client's.
    if(label STREQUAL "node")
        string(REGEX MATCH "^node_(amqp_)?" turn ${name})
        set_tests_properties(${name} PROPERTIES RESOURCE_LOCK ${turn} COST 300)
    elseif(label MATCHES "peer|broker")
        set_tests_properties(${name} PROPERTIES COST 100)
    endif()
endfunction()

if(TARGET coney_static)
    file(GLOB test_shared CONFIGURE_DEPENDS test/*.c)
    set(test_programs ${test_shared})
    list(FILTER test_shared EXCLUDE REGEX "_test\\.c$")
    list(FILTER test_programs INCLUDE REGEX "_test\\.c$")
    if(test_shared)
        add_library(testsupport OBJECT ${test_shared})
        target_include_directories(testsupport PUBLIC include src test)
        target_link_libraries(testsupport PUBLIC PkgConfig::CMOCKA OpenSSL::SSL Threads::Threads PRIVATE coney_warnings)
    endif()
    foreach(source IN LISTS test_programs)
        get_filename_component(name ${source} NAME_WE)
        add_executable(${name} ${source})
        set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY test)
        target_include_directories(${name} PRIVATE include src test)
        target_link_libraries(${name} PRIVATE $<TARGET_NAME_IF_EXISTS:testsupport> coney_inside PkgConfig::CMOCKA
            Threads::Threads coney_warnings m)
        add_test(NAME ${name} COMMAND ${name})
        coney_describe_test(${name})
    endforeach()
endif()

file(GLOB test_scripts CONFIGURE_DEPENDS test/*_test.sh)
foreach(source IN LISTS test_scripts)
    get_filename_component(name ${source} NAME_WE)
    add_test(NAME ${name} COMMAND bash ${source})
    coney_describe_test(${name})
endforeach()

add_test(NAME layers COMMAND ${PROJECT_SOURCE_DIR}/script/check-layers)
add_test(NAME headers COMMAND ${PROJECT_SOURCE_DIR}/script/check-headers ${CMAKE_C_COMPILER})
set_tests_properties(layers headers PROPERTIES LABELS house TIMEOUT 60)
foreach(library coney coney_static coney_service coney_service_static)
    if(TARGET ${library})
        add_test(NAME symbols_of_${library} COMMAND ${PROJECT_SOURCE_DIR}/script/update-symbols --check $<TARGET_LINKER_FILE:${library}>)
        set_tests_properties(symbols_of_${library} PROPERTIES LABELS house TIMEOUT 60)
    endif()
endforeach()

# A program outside the build, against the installed library. Its own flags are plain, so the library's must be too.
if(TARGET coney_tool AND NOT "${CMAKE_C_FLAGS}" MATCHES "-fsanitize|--coverage")
    add_test(NAME install COMMAND ${PROJECT_SOURCE_DIR}/test/install/run ${PROJECT_BINARY_DIR})
    set_tests_properties(install PROPERTIES LABELS install TIMEOUT 120)
endif()
