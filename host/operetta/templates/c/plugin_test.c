/* The reconciler against the SDK's test kit: an API server in memory. */
#include "operetta_testing.h"

static const operetta_kind KIND = {"{{group}}/{{version}}", "{{kind}}"};

/* One {{kind}}, reconciled once. */
static void example(void) {
    operetta_value *object = operetta_new(KIND, "default", "example");
    operetta_set_string(object, "spec.message", "Hello");
    operetta_test_add(object);
    EXPECT_INT(OPERETTA_RESULT_DONE, operetta_test_reconcile("{{singular}}", "default", "example").kind);
}

static operetta_value *config_map(void) { return operetta_test_object(OPERETTA_CONFIG_MAP, "default", "example"); }

OPERETTA_TEST(the_message_gets_into_a_config_map_and_is_put_back) {
    example();
    operetta_value *object = operetta_test_object(KIND, "default", "example");
    EXPECT_STRING("Hello", operetta_string(config_map(), "data.message", ""));
    EXPECT(operetta_is_controlled_by(config_map(), object));
    EXPECT_STRING("example", operetta_string(object, "status.configMap", ""));

    operetta_value *map = config_map();
    operetta_remove(map, "data");
    EXPECT(operetta_update(map, NULL, NULL) != NULL);
    operetta_test_reconcile("{{singular}}", "default", "example");
    EXPECT_STRING("Hello", operetta_string(config_map(), "data.message", ""));
}

OPERETTA_TEST(a_second_reconcile_writes_nothing) {
    example();
    operetta_test_reconcile("{{singular}}", "default", "example");
    EXPECT_STRING("create ConfigMap default/example", operetta_test_write(0));
    EXPECT_STRING("update-status {{kind}} default/example", operetta_test_write(1));
    EXPECT_STRING(NULL, operetta_test_write(2));
}

OPERETTA_TEST_MAIN
