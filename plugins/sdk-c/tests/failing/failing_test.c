/* Tests that fail on purpose: test.sh checks what they print. */
#include "../../operetta_testing.h"

static operetta_value *widget(const char *name) {
    return operetta_new((operetta_kind){"example.com/v1", "Widget"}, "ns", name);
}

OPERETTA_TEST(failed_check_shows_the_cluster) {
    operetta_test_add(widget("visible"));
    EXPECT_INT(1, 2);
}

OPERETTA_TEST(rejected_object_ends_the_test) {
    operetta_test_add(widget("Not A Name"));
    EXPECT_STRING("reached", "");
}

OPERETTA_TEST(later_test_still_runs) { EXPECT(operetta_test_object(OPERETTA_CONFIG_MAP, "ns", "a") == NULL); }

OPERETTA_TEST_MAIN
