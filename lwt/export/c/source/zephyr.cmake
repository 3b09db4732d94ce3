# A Zephyr module: add this folder to ZEPHYR_EXTRA_MODULES (or west.yml), and set CONFIG_@MACRO@=y.
if(CONFIG_@MACRO@)
  zephyr_library_named(@NAME@)
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/../src/*.c")
  zephyr_library_sources(${sources})
  zephyr_library_compile_options(-ffp-contract=off -fno-math-errno)
  zephyr_include_directories("${CMAKE_CURRENT_LIST_DIR}/../src")
endif()
