//! Tests the reconciler with the SDK's test kit, on an API server for tests.

const std = @import("std");
const c = @import("operetta");

comptime {
    _ = @import("plugin.zig"); // exports operetta_plugin
}

const kind: c.operetta_kind = .{ .api_version = "{{group}}/{{version}}", .kind = "{{kind}}" };

/// Prints the cluster, for a test that fails.
fn printCluster() void {
    std.debug.print("the cluster at the end of the test:\n{s}\n", .{std.mem.span(c.operetta_test_dump())});
}

/// Starts an empty cluster, adds a {{kind}} and reconciles it once.
fn reconcileNewObject() !void {
    c.operetta_test_reset();
    const object = c.operetta_new(kind, "default", "hello");
    c.operetta_set_string(object, "spec.message", "Hello");
    c.operetta_test_add(object);
    const result = c.operetta_test_reconcile("{{singular}}", "default", "hello");
    try std.testing.expect(result.kind == c.OPERETTA_RESULT_DONE);
}

fn configMap() ?*c.operetta_value {
    return c.operetta_test_object(c.OPERETTA_CONFIG_MAP, "default", "hello");
}

fn expectText(expected: []const u8, actual: [*c]const u8) !void {
    try std.testing.expectEqualStrings(expected, std.mem.span(actual));
}

test "writes message into ConfigMap and restores it" {
    errdefer printCluster();
    try reconcileNewObject();
    const object = c.operetta_test_object(kind, "default", "hello");
    try expectText("Hello", c.operetta_string(configMap(), "data.message", ""));
    try std.testing.expect(c.operetta_is_controlled_by(configMap(), object));
    try expectText("hello", c.operetta_string(object, "status.configMap", ""));

    const map = configMap();
    _ = c.operetta_remove(map, "data");
    try std.testing.expect(c.operetta_update(map, null, null) != null);
    _ = c.operetta_test_reconcile("{{singular}}", "default", "hello");
    try expectText("Hello", c.operetta_string(configMap(), "data.message", ""));
}

test "second reconcile writes nothing" {
    errdefer printCluster();
    try reconcileNewObject();
    _ = c.operetta_test_reconcile("{{singular}}", "default", "hello");
    try expectText("create ConfigMap default/hello", c.operetta_test_write(0));
    try expectText("update-status {{kind}} default/hello", c.operetta_test_write(1));
    try std.testing.expect(c.operetta_test_write(2) == null);
}
