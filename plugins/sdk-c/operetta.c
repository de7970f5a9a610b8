/*
 * The SDK in one file: compile it with your plugin. A component calls the host. A native build calls the API
 * server for tests of operetta_testing.h.
 *
 * This file includes the parts of the SDK. vendor/yyjson is the JSON library.
 */
#if defined(__clang__)
/* -fsanitize=undefined checks only the plugin's code in a component. The SDK's own tests run with the checks. */
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
#include "testing/server.c"
#include "testing/cluster.c"
#include "testing/backend.c"
#include "testing/kit.c"
#endif
