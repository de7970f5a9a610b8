/*
 * The JSON library (vendor/yyjson, unmodified), with the parts left out that a plugin does not need. Files do not exist
 * in a component: without the lines below libc's file functions would be linked, and ask the host for folders.
 */
#include <stdio.h>

#define YYJSON_DISABLE_NON_STANDARD 1
#define YYJSON_DISABLE_INCR_READER 1
#if defined(__wasm__)
#define yyjson_inline __inline__ /* instead of always_inline: 60 KB less */
#define YYJSON_DISABLE_UTILS 1 /* JSON Pointer and patches: the API server's work; the test kit's in native builds */
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
