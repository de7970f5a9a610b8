//! Tests of the hostile corpus in the real sandbox: every guest of `tests/guests/hostile/` gets
//! the response that its file states, and the host stays unharmed. A guest without a test does not
//! compile. reached.rs tests what guests send to the host's ports.

#[path = "../sandbox/ports.rs"]
mod ports;
mod reached;
mod stage;
mod table;

use operetta_testkit::foreach_hostile;
use reached::*;

#[global_allocator]
static HEAP: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

/// Tests of guests whose file states all expectations.
macro_rules! answered {
    ($($name:ident)*) => { $(
        #[tokio::test]
        async fn $name() {
            stage::run(stringify!($name)).await;
        }
    )* };
}

answered! {
    abort action_that_is_none async_functions blocks call_of_another_type call_of_nothing config_again_and_again
    core_instances custom_sections cycle data_again_and_again data_out_of_bounds data_segments
    division_by_zero element_segments event_of_another_version event_that_is_none exceptions exit exit_with_success
    exponential_exports exponential_instances exponential_types exports failure_of_a_megabyte
    failure_of_control_characters failure_out_of_bounds failure_that_is_none functions garbage_collection globals
    handle_after_drop handle_dropped_twice handle_flood handle_made_up handle_of_another_type
    host_call_at_the_end_of_the_stack import_of_a_url import_of_another_type imports imports_http
    level_that_is_none list_at_an_odd_address list_bomb list_that_wraps locals log_level_for_ever manifest_infinite
    manifest_nan manifest_negative manifest_of_10_mb manifest_of_a_costly_path manifest_of_a_deep_field
    manifest_of_a_forged_kind manifest_of_a_forged_version manifest_of_a_long_field manifest_of_a_long_index
    manifest_of_a_long_kind manifest_of_a_long_mapping manifest_of_a_long_name manifest_of_a_long_path
    manifest_of_a_long_selector manifest_of_a_name_of_a_path manifest_of_deep_json manifest_of_duplicate_fields
    manifest_of_many_indexes manifest_of_many_pruned_fields manifest_of_many_workers manifest_of_nested_predicates
    manifest_of_one_name_twice manifest_of_ten_thousand_controllers manifest_out_of_bounds
    manifest_that_watches_everything manifest_without_a_mapper mapper_of_a_forged_key mapper_of_a_forged_namespace
    mapper_of_a_million_keys mapper_of_many_keys mapper_of_new_keys_for_ever mapper_that_spins memories
    memories_of_eight_modules memories_of_nine_modules memories_of_one_module memories_too_large_together memory64
    memory_from_the_start memory_grow memory_grow_at_once memory_grow_in_describe name_lookup name_of_99_kb
    nested_components option_that_is_none page_sizes parameters patch_that_is_none poll_of_a_million poll_of_nothing
    pollable_never_ready post_return_that_calls_the_host post_return_that_traps     random_for_ever random_without_end raw_openapi_in_parallel read_that_is_none realloc_out_of_bounds
    realloc_overlapping realloc_that_calls_the_host realloc_that_grows realloc_that_traps
    realloc_that_traps_in_a_host_call realloc_unaligned recursion requeue_flood requeue_in_fifty_days
    result_at_an_odd_address result_out_of_bounds result_that_is_none resync_of_everything selectors_by_the_hundred
    sleep_for_ever sleep_in_every_slot sockets sources_without_rights spin spin_by_tail_calls spin_in_describe
    spin_in_memory_copy spin_in_memory_fill spin_in_post_return spin_in_realloc spin_in_start spin_in_table_fill
    stack_switching start_that_calls_the_host start_that_traps streams table_from_the_start table_grow tables
    tables_of_eight_modules tables_of_nine_modules tables_of_one_module
    text_at_an_odd_address text_that_is_no_utf_16 text_that_wraps threads trap_in_describe values
    warm_handles_leaked warm_memory_grow warm_memory_kept warm_spin_later warm_table_kept wide_exports
    world_outside zeroes_without_end
}

/// Fails to compile for a guest without a test of its name.
macro_rules! is_tested {
    ($name:ident) => {
        #[allow(unused_imports, reason = "the import only shows that the test exists")]
        use self::$name as _;
    };
}

foreach_hostile!(is_tested);
