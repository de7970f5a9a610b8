/*
 * The JSON library (vendor/yyjson, unmodified), without the parts that a plugin does not need. A component has no
 * files: without the macros below libc's file functions would be linked, and they would ask the host for folders.
 */
#include <stdio.h>

#define YYJSON_DISABLE_NON_STANDARD 1
#define YYJSON_DISABLE_INCR_READER 1
#if defined(__wasm__)
#define yyjson_inline __inline__ /* instead of always_inline: saves 60 KB */
#define YYJSON_DISABLE_UTILS 1 /* JSON Pointer and patches: only the test kit, a native build, needs them */
#define fopen(path, mode) ((FILE *)NULL)
#define fclose(file) ((void)(file), 0)
#define fread(data, size, count, file) ((void)(data), (void)(file), (size_t)0)
#define fwrite(data, size, count, file) ((void)(data), (void)(file), (size_t)0)
#define fseek(file, offset, whence) ((void)(file), -1)
#define ftell(file) ((void)(file), -1L)
#define feof(file) ((void)(file), 1)
#endif

#include "../vendor/yyjson/yyjson.c"

#if defined(__wasm__)
#undef fopen
#undef fclose
#undef fread
#undef fwrite
#undef fseek
#undef ftell
#undef feof
#endif
