//! Writes the message of each {{kind}} into a ConfigMap of the same name, and names it in the status.

const std = @import("std");
/// The SDK: the names of sdk/operetta.h.
const c = @import("operetta");

/// The kind that crd.yaml describes.
const kind: c.operetta_kind = .{ .api_version = "{{group}}/{{version}}", .kind = "{{kind}}" };

/// Sends Zig's panics, for instance an index out of bounds, to the plugin's log.
pub const panic = std.debug.FullPanic(logAndTrap);

fn logAndTrap(message: []const u8, _: ?usize) noreturn {
    c.operetta_panic_at(null, 0, null, "%.*s", @as(c_int, @intCast(message.len)), message.ptr);
}

/// The host does not call this for a deleted object: the garbage collector deletes its ConfigMap.
fn reconcile(request: [*c]const c.operetta_request, object: ?*c.operetta_value) callconv(.c) c.operetta_result {
    var failure: [*c]c.operetta_error = null;
    write(request.*, object.?, &failure) catch return c.operetta_fail(failure);
    return c.operetta_done();
}

/// Writes the ConfigMap and the status; sets `failure` where it returns an error.
fn write(request: c.operetta_request, object: *c.operetta_value, failure: [*c][*c]c.operetta_error) error{Api}!void {
    const map = c.operetta_get_or_new(c.OPERETTA_CONFIG_MAP, request.namespace_, request.name, failure) orelse
        return error.Api;
    if (!c.operetta_set_controller_reference(object, map, failure)) return error.Api;
    c.operetta_set_string(map, "data.message", c.operetta_string(object, "spec.message", ""));
    var result: c.operetta_operation_result = undefined; // unchanged: nothing was written
    if (c.operetta_create_or_update(map, &result, failure) == null) return error.Api;
    if (result != c.OPERETTA_UNCHANGED) {
        const fields = [_]c.operetta_field{
            .{ .name = "result", .value = c.operetta_operation_result_name(result) },
            .{},
        };
        c.operetta_log(c.OPERETTA_INFO, &fields, "ConfigMap written");
        c.operetta_event(object, c.OPERETTA_NORMAL, "Written", "Write", "The message is in the ConfigMap");
    }

    const named = std.mem.span(c.operetta_string(object, "status.configMap", ""));
    if (!std.mem.eql(u8, named, std.mem.span(request.name))) {
        c.operetta_set_string(object, "status.configMap", request.name);
        if (c.operetta_update_status(object, null, failure) == null) return error.Api;
    }
}

/// Watches the {{kind}}s of the plugin's own namespace and the ConfigMaps that they control.
export fn operetta_plugin() void {
    const controller = c.operetta_add_object_controller("{{singular}}", kind, reconcile);
    _ = c.operetta_own_namespace(c.operetta_for(controller));
    _ = c.operetta_own_namespace(c.operetta_owns(controller, c.OPERETTA_CONFIG_MAP));
}
