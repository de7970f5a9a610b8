/* The example's tests. */
#include "operetta_testing.h"

#define GREETING(spec)                                                                                                 \
    "{\"apiVersion\":\"example.operetta.dev/v1\",\"kind\":\"Greeting\","                                               \
    "\"metadata\":{\"namespace\":\"ns\",\"name\":\"hi\"},\"spec\":" spec "}"

static operetta_result reconcile(void) { return operetta_test_reconcile("greeting", "ns", "hi"); }

static operetta_value *greeting(void) {
    return operetta_test_object((operetta_kind){"example.operetta.dev/v1", "Greeting"}, "ns", "hi");
}

static operetta_value *words(void) { return operetta_test_object(OPERETTA_CONFIG_MAP, "ns", "hi"); }

OPERETTA_TEST(new_greeting_gets_words_and_status) {
    operetta_test_add_json(GREETING("{\"words\":\"hello\",\"times\":2}"));
    EXPECT_INT(OPERETTA_RESULT_DONE, reconcile().kind);
    EXPECT_STRING("hello", operetta_string(words(), "data.line-1", ""));
    EXPECT(operetta_is_controlled_by(words(), greeting()));
    EXPECT_INT(2, operetta_int(greeting(), "status.lines", 0));
    EXPECT_STRING("Normal Greeted Greet: The words are in place", operetta_test_event(0));
    EXPECT_STRING("info words written result=created", operetta_test_log(0));
}

OPERETTA_TEST(second_reconcile_writes_nothing) {
    operetta_test_add_json(GREETING("{\"words\":\"hello\"}"));
    reconcile();
    reconcile();
    EXPECT_STRING("create ConfigMap ns/hi", operetta_test_write(0));
    EXPECT_STRING("update-status Greeting ns/hi", operetta_test_write(1));
    EXPECT_STRING(NULL, operetta_test_write(2));
}

OPERETTA_TEST(changed_words_are_restored) {
    operetta_test_add_json(GREETING("{\"words\":\"hello\"}"));
    reconcile();
    operetta_value *map = words();
    operetta_set_string(map, "data.line-0", "goodbye");
    EXPECT(operetta_update(map, NULL, NULL) != NULL);
    reconcile();
    EXPECT_STRING("hello", operetta_string(words(), "data.line-0", ""));
}

OPERETTA_TEST(too_many_lines_are_a_terminal_error) {
    operetta_test_add_json(GREETING("{\"words\":\"hello\",\"times\":101}"));
    operetta_result result = reconcile();
    EXPECT_INT(OPERETTA_RESULT_TERMINAL, result.kind);
    EXPECT_STRING("Greeting ns/hi: spec.times is 101: 1 to 100 are possible", result.message);
}

OPERETTA_TEST(config_map_of_another_owner_is_not_changed) {
    operetta_value *map = operetta_new(OPERETTA_CONFIG_MAP, "ns", "hi");
    operetta_set_bool(map, "metadata.ownerReferences[0].controller", true);
    operetta_set_string(map, "metadata.ownerReferences[0].apiVersion", "example.com/v1");
    operetta_set_string(map, "metadata.ownerReferences[0].kind", "Other");
    operetta_set_string(map, "metadata.ownerReferences[0].name", "o");
    operetta_set_string(map, "metadata.ownerReferences[0].uid", "1");
    operetta_test_add(map);
    operetta_test_add_json(GREETING("{\"words\":\"hello\"}"));
    EXPECT_INT(OPERETTA_RESULT_RETRY, reconcile().kind);
    EXPECT_STRING("Warning ErrResourceExists Greet: it is already controlled by Other o", operetta_test_event(0));
    EXPECT_STRING(NULL, operetta_test_write(0));
}

OPERETTA_TEST(deleted_greeting_is_done) { EXPECT_INT(OPERETTA_RESULT_DONE, reconcile().kind); }

OPERETTA_TEST(conflict_is_retried) {
    operetta_test_add_json(GREETING("{\"words\":\"hello\"}"));
    operetta_test_fail_next("update-status", OPERETTA_CONFLICT, "the object has been modified");
    operetta_result result = reconcile();
    EXPECT_INT(OPERETTA_RESULT_RETRY, result.kind);
    EXPECT_STRING("update the status of Greeting ns/hi: the object has been modified", result.message);
}

OPERETTA_TEST_MAIN
