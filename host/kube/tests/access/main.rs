//! RBAC decides, and nothing else: every way to see or do something, for ServiceAccounts with
//! different rights, compared with what `kubectl auth can-i` says on a real API server; and again
//! after each of many changes of those rights.

mod churn;
mod denied;
mod narrow;
mod stage;
mod ways;

use std::{collections::BTreeMap, time::Duration};

use operetta_core::authz::access_review::Grants;
use operetta_testkit::{eventually, in_effect_after};
use rand::{SeedableRng, rngs::StdRng, seq::IndexedRandom};

use stage::{ACCOUNTS, Rights, Stage};
use ways::{Cell, Question};

/// How long a change of rights may take to be in effect.
const IN_EFFECT: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn plugin_access_equals_kubectl_auth_can_i() {
    let stage = Stage::new("table").await;
    let cells = stage.cells();
    assert!(cells.len() >= 300, "{} cells", cells.len());
    let expected = can_i(&stage, &cells);
    let yes = expected.values().filter(|allowed| **allowed).count();
    assert!(
        yes >= 50 && expected.len() - yes >= 50,
        "{yes} of {} questions are answered yes",
        expected.len()
    );
    eventually("the table", async || {
        compare(&stage, &cells, &expected).await
    })
    .await;
    recorders(&stage, &expected).await;
    println!(
        "{} cells equal to {} answers of kubectl auth can-i",
        cells.len(),
        expected.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_rights_is_in_effect_within_five_seconds() {
    let seed = std::env::var("OPERETTA_SEED")
        .ok()
        .map(|text| text.parse().expect("OPERETTA_SEED is a number"));
    let seed: u64 = seed.unwrap_or_else(rand::random);
    println!("OPERETTA_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut stage = Stage::new("change").await;
    let cells = stage.cells();
    for round in 0..20 {
        let account = *ACCOUNTS.choose(&mut random).expect("accounts");
        let locations: Vec<Option<String>> = stage
            .locations
            .iter()
            .cloned()
            .map(Some)
            .chain([None])
            .collect();
        let location = locations.choose(&mut random).expect("locations").clone();
        let rights = *Rights::ALL.choose(&mut random).expect("rights");
        let change = stage.toggle(account, location, rights).await;
        in_effect_after(IN_EFFECT, &format!("round {round}: {change}"), async || {
            let expected = stage.self_reviews(&cells).await;
            compare(&stage, &cells, &expected).await
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cached_review_expires_without_notice() {
    let mut stage = Stage::untold("untold").await;
    let cells: Vec<Cell> = stage
        .cells()
        .into_iter()
        .filter(|cell| cell.account == "wide")
        .collect();
    let expected = stage.self_reviews(&cells).await;
    eventually("the table", async || {
        compare(&stage, &cells, &expected).await
    })
    .await;
    stage.toggle("wide", None, Rights::ReadAll).await;
    in_effect_after(Grants::KEEP + IN_EFFECT, "the right is gone", async || {
        let expected = stage.self_reviews(&cells).await;
        compare(&stage, &cells, &expected).await
    })
    .await;
}

/// What `kubectl auth can-i` says to each question that the cells ask.
fn can_i(stage: &Stage<'_>, cells: &[Cell]) -> BTreeMap<Question, bool> {
    let questions: Vec<Question> = stage.questions(cells).into_iter().collect();
    let ask = |question: &Question| {
        let output = stage.control_plane.kubectl_output(&question.can_i());
        match String::from_utf8_lossy(&output.stdout).trim() {
            "yes" => true,
            "no" => false,
            other => panic!(
                "{question:?}: {other} {}",
                String::from_utf8_lossy(&output.stderr)
            ),
        }
    };
    std::thread::scope(|scope| {
        let parts = questions.chunks(questions.len().div_ceil(4));
        let threads = parts.map(|part| {
            scope.spawn(move || {
                part.iter()
                    .map(|question| (question.clone(), ask(question)))
                    .collect::<Vec<_>>()
            })
        });
        let threads: Vec<_> = threads.collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("asked"))
            .collect()
    })
}

/// Looks at every cell; Err names those that differ.
async fn compare(
    stage: &Stage<'_>,
    cells: &[Cell],
    expected: &BTreeMap<Question, bool>,
) -> Result<(), String> {
    stage.touch_all().await;
    let mut wrong = Vec::new();
    for cell in cells {
        let whole = is_allowed(&cell.questions(stage), expected);
        let wider = cell.wider(stage);
        let allowed = whole
            || (!wider.is_empty() && is_allowed(&wider, expected))
            || cell
                .alternatives(stage)
                .iter()
                .any(|question| expected.get(question) == Some(&true));
        let seen = stage.look(cell).await;
        if seen != Ok(allowed) {
            wrong.push(format!("{cell:?}: can-i says {allowed}, seen {seen:?}"));
        }
        let parts = cell
            .parts(stage)
            .into_iter()
            .filter(|(_, question)| whole || expected[question]);
        let parts: Vec<_> = parts.map(|(location, _)| location).collect();
        if !parts.is_empty() && stage.shown(cell).await != parts {
            wrong.push(format!("{cell:?} shows other namespaces than {parts:?}"));
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "{} cells differ:\n{}",
            wrong.len(),
            wrong.join("\n")
        ))
    }
}

fn is_allowed(questions: &[Question], expected: &BTreeMap<Question, bool>) -> bool {
    questions.iter().all(|question| expected[question])
}

/// The event recorder writes where the ServiceAccount may create Events, and nowhere else.
async fn recorders(stage: &Stage<'_>, expected: &BTreeMap<Question, bool>) {
    let mut written = Vec::new();
    for account in ACCOUNTS {
        for location in &stage.locations {
            stage.emit(account, location);
            written.push((
                Question::events(stage, account, location),
                account,
                location.clone(),
            ));
        }
    }
    for (question, account, location) in written.iter().filter(|(question, ..)| expected[question])
    {
        eventually(&format!("{question:?}"), async || {
            match stage.event_count(account, location).await {
                0 => Err("no Event".to_owned()),
                _ => Ok(()),
            }
        })
        .await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    for (question, account, location) in written {
        assert_eq!(
            stage.event_count(account, &location).await > 0,
            expected[&question],
            "{question:?}"
        );
    }
}
