# Toolchain file of the presets that want clang: Debian may have it under its version's name only.
find_program(CONEY_CLANG NAMES clang clang-14 clang-19 clang-18 clang-17 clang-16 clang-15 REQUIRED)
set(CMAKE_C_COMPILER ${CONEY_CLANG})
