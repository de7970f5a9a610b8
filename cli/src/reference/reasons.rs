//! docs/reference/reasons.md, from the table of codes.

use std::fmt::Write;

use operetta_api::reasons::{self, Area};

use super::{cell, check};

const INTRODUCTION: &str = "\
Each thing that can go wrong has a code: the reason of a condition or an Event, the name of a readiness check, or the word in \
parentheses at the end of a command's error. `operetta explain CODE` prints an entry of this page, without a cluster. The message \
beside the code has the names, and where there is one, the whole command that cures it. Codes do not change between versions.";

#[test]
fn reasons_page_in_the_repository_matches_table() {
    let mut body = String::new();
    let mut area: Option<Area> = None;

    for reason in reasons::all() {
        if area != Some(reason.area()) {
            let gap = if area.is_some() { "\n" } else { "" };
            let heading = reason.area().title();
            let columns = "| code | cause | cure |\n|---|---|---|";
            writeln!(
                body,
                "{gap}## {heading}\n\n{}\n\n{columns}",
                reason.area().shown()
            )
            .expect("a string");
            area = Some(reason.area());
        }

        let cure = if reason.cure().is_empty() {
            "–"
        } else {
            reason.cure()
        };

        writeln!(
            body,
            "| `{reason}` | {} | {} |",
            cell(reason.cause()),
            cell(cure)
        )
        .expect("a string");
    }

    check("reasons.md", "Codes: causes and cures", INTRODUCTION, &body);
}
