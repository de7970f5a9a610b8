//! An operator in Zig on the SDK's C API. Each Greeting gets a ConfigMap with its words, and a status.

const std = @import("std");
const c = @import("operetta");

const greeting_kind: c.operetta_kind = .{ .api_version = "example.operetta.dev/v1", .kind = "Greeting" };

/// Zig's panic handler: writes panics, such as an index out of bounds, to the plugin's log.
pub const panic = std.debug.FullPanic(logAndTrap);

fn logAndTrap(message: []const u8, _: ?usize) noreturn {
    c.operetta_panic_at(null, 0, null, "%.*s", @as(c_int, @intCast(message.len)), message.ptr);
}

fn reconcile(request: [*c]const c.operetta_request) callconv(.c) c.operetta_result {
    var failed: [*c]c.operetta_error = null;
    return greet(request.*, &failed) catch c.operetta_fail(failed);
}

/// Reconciles one Greeting. On failure the error is in `failed`.
fn greet(request: c.operetta_request, failed: [*c][*c]c.operetta_error) error{Api}!c.operetta_result {
    const greeting = c.operetta_find(greeting_kind, request.namespace_, request.name, failed) orelse
        return if (failed.* == null) c.operetta_done() else error.Api;

    const map = c.operetta_get_or_new(c.OPERETTA_CONFIG_MAP, request.namespace_, request.name, failed) orelse
        return error.Api;
    c.operetta_set_string(map, "data.words", c.operetta_string(greeting, "spec.words", ""));
    if (!c.operetta_set_controller_reference(greeting, map, failed)) return error.Api;

    var did: c.operetta_operation_result = undefined;
    if (c.operetta_create_or_update(map, &did, failed) == null) return error.Api;
    if (did != c.OPERETTA_UNCHANGED) {
        c.operetta_event(greeting, c.OPERETTA_NORMAL, "Greeted", "Greet", "The words are in place");
    }
    if (c.operetta_int(greeting, "status.lines", 0) != 1) {
        c.operetta_set_int(greeting, "status.lines", 1);
        if (c.operetta_update_status(greeting, null, failed) == null) return error.Api;
    }
    return c.operetta_done();
}

export fn operetta_plugin() void {
    const greetings = c.operetta_add_controller("greeting", greeting_kind, reconcile);
    _ = c.operetta_owns(greetings, c.OPERETTA_CONFIG_MAP);
    c.operetta_workers(greetings, 2);
}
