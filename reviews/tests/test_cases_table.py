"""Which test tells which case of the field: every case of these kinds has one, and the tests are there."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from reviews.tests.cases.builders import FIELD_CASES

HERE = Path(__file__).parent
KINDS = {
    "payload-shape",
    "batch-decisions",
    "decision-policy",
    "race",
    "data-fidelity",
    "serialization",
    "resume-identity",
    "time-travel",
}

TABLE: dict[str, dict[str, tuple[str, ...]]] = {
    "HC-01": {
        "test_cases_payloads.py": (
            "test_any_value_is_one_question_that_takes_a_free_answer_only",
            "test_json_is_handed_over_parsed_and_broken_json_not_at_all",
            "test_a_text_that_markup_would_change_can_be_read_as_it_came",
        )
    },
    "HC-02": {
        "test_cases_payloads.py": (
            "test_an_edit_goes_back_in_the_dialect_of_the_request",
            "test_agent_inbox_is_answered_in_its_old_words",
        )
    },
    "HC-04": {
        "test_cases_markup.py": (
            "test_nothing_an_agent_or_a_person_writes_comes_to_life",
            "test_calls_results_and_words_of_the_conversation_are_dead_too",
        ),
        "browser/test_markup.py": (),
    },
    "HC-07": {
        "test_cases_data.py": (
            "test_untouched_numbers_reach_the_tool_to_the_digit",
            "test_a_number_that_no_checkpoint_holds_ends_the_run_in_words",
        ),
        "browser/test_typed_text.py": (),
    },
    "HC-09": {
        "test_cases_data.py": (
            "test_nan_and_infinity_are_shown_with_a_mark_and_run_as_they_are",
            "test_typed_json_that_cannot_be_kept_is_refused_with_its_reason",
        )
    },
    "HC-10": {
        "test_cases_data.py": (
            "test_objects_are_shown_with_their_parts_and_types_and_stay_untouched",
            "test_two_keys_that_look_alike_never_merge",
        )
    },
    "HC-12": {
        "test_cases_batches.py": (
            "test_only_gated_calls_are_cards_and_each_call_of_the_turn_runs_once",
            "test_one_decision_or_three_are_refused_before_the_graph_hears_of_them",
        )
    },
    "HC-13": {
        "test_cases_batches.py": (
            "test_a_mixed_batch_keeps_its_order_its_words_and_all_its_results",
            "test_the_model_is_asked_again_on_the_same_thread",
        )
    },
    "HC-15": {"test_cases_policy.py": ("test_a_decision_cannot_name_another_tool",)},
    "HC-16": {
        "test_cases_policy.py": (
            "test_wrong_types_and_missing_arguments_are_refused_at_their_fields",
            "test_the_json_box_refuses_the_same",
            "test_a_fitting_edit_reaches_the_tool_with_its_types",
            "test_a_changed_type_that_no_schema_allows_is_confirmed_first",
            "test_what_the_tool_says_to_an_edit_stands_on_the_question",
        )
    },
    "HC-18": {
        "test_cases_policy.py": (
            "test_a_tool_that_asks_is_answered_and_never_run",
            "test_a_question_is_cancelled_without_an_answer",
        )
    },
    "HC-19": {
        "test_cases_identity.py": (
            "test_side_by_side_questions_get_their_own_answers_in_any_order",
            "test_tools_that_ask_from_inside_get_their_own_answers",
            "test_two_pauses_with_one_id_are_not_answered_one_by_one",
        )
    },
    "HC-21": {
        "test_cases_identity.py": (
            "test_an_answer_arrives_as_it_is_whatever_it_looks_like",
            "test_an_unknown_or_answered_question_takes_no_answer",
            "test_an_answer_that_was_not_taken_leaves_the_question_open_and_says_so",
        )
    },
    "HC-23": {
        "test_cases_batches.py": (
            "test_the_same_post_by_hand_after_success_changes_nothing",
            "test_clicks_at_the_same_moment_are_one_decision",
        ),
        "browser/test_races.py": (),
    },
    "HC-24": {
        "test_cases_time_travel.py": ("test_work_before_a_pause_runs_again_and_each_page_says_so_first",),
    },
    "HC-26": {
        "test_cases_time_travel.py": ("test_a_history_of_thousands_is_walked_page_by_page_while_it_grows",),
    },
}


@cache
def functions_of(file: str) -> frozenset[str]:
    tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_case_of_these_kinds_has_its_tests() -> None:
    wanted = {name for name, case in FIELD_CASES.items() if case["kind"] in KINDS} | {"HC-04"}
    assert set(TABLE) == wanted


@pytest.mark.parametrize("case", TABLE)
def test_the_tests_of_a_case_are_there_and_name_it(case: str) -> None:
    for file, names in TABLE[case].items():
        assert set(names) <= functions_of(file), file
        assert case in (HERE / file).read_text(encoding="utf-8"), file
