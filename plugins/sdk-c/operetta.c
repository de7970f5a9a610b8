/*
 * The SDK in one file: compile it with your plugin. As a component it speaks with the host; natively it speaks with
 * the API server in memory of operetta_testing.h.
 *
 * The files below are parts of this one: each says what it is for. vendor/yyjson is the JSON library.
 */
#if defined(__clang__)
/* Checks that -fsanitize=undefined adds are for the plugin's code; the SDK's own tests run with them. */
#if defined(__wasm__)
#pragma clang attribute push(__attribute__((no_sanitize("undefined"))), apply_to = function)
#endif
#endif

#include "src/yyjson.c"

#include "src/memory.c"
#include "src/errors.c"
#include "src/path.c"
#include "src/values.c"
#include "src/setters.c"
#include "src/quantity.c"
#include "src/metadata.c"
#include "src/objects.c"
#include "src/manifest.c"
#include "src/log.c"
#include "src/clock.c"

#if defined(__wasm__)
#include "src/generated/plugin.c"
#include "src/guest.c"
#include "src/faults.c"
#include "src/output.c"
#pragma clang attribute pop
#else
#include "testing/selector.c"
#include "testing/store.c"
#include "testing/backend.c"
#include "testing/kit.c"
#endif
