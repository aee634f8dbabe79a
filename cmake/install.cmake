# Headers, both libraries, the tool with its completion, coney.pc, and the CMake package (coney::coney, coney::coney_static).
if(NOT TARGET coney)
    return()
endif()
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/coney)

install(DIRECTORY include/coney DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS coney EXPORT coney-shared)
install(TARGETS coney_static EXPORT coney-static)
install(EXPORT coney-shared NAMESPACE coney:: DESTINATION ${package_dir})
install(EXPORT coney-static NAMESPACE coney:: DESTINATION ${package_dir})
configure_package_config_file(cmake/coney-config.cmake.in coney-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(coney-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/coney-config.cmake ${PROJECT_BINARY_DIR}/coney-config-version.cmake DESTINATION ${package_dir})

# coney.pc finds its prefix from where it lies, so that the tree may be moved.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig
    OUTPUT_VARIABLE CONEY_PC_TO_PREFIX)
configure_file(cmake/coney.pc.in coney.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/coney.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(TARGET coney_tool)
    install(TARGETS coney_tool)
endif()
if(EXISTS ${PROJECT_SOURCE_DIR}/src/cli/coney.bash)
    install(FILES src/cli/coney.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME coney)
endif()
