//! Every SDK shows every behaviour of plugins/conformance on a real API server, or says which it
//! cannot; the table in docs/conformance.md is what this found.

mod cases;
mod stage;
mod table;
mod watches;

use std::collections::BTreeMap;

use operetta_testkit::ControlPlane;
use stage::{Outcome, Stage};

/// The SDKs, by the names of their plugins: `conformance-NAME`.
const SDKS: &[&str] = &["rust", "go", "typescript", "python", "c"];

/// One entry of plugins/conformance/behaviours.json.
#[derive(Clone, Debug, serde::Deserialize)]
struct Behaviour {
    id: String,
    group: String,
    title: String,
}

fn behaviours() -> Vec<Behaviour> {
    let path = "../plugins/conformance/behaviours.json";
    serde_json::from_str(&std::fs::read_to_string(path).expect("the list")).expect("behaviours")
}

/// The outcome of each behaviour with an SDK's plugin. The tests of this program share one run of
/// it.
async fn outcomes(sdk: &'static str) -> BTreeMap<String, Outcome> {
    let run = async || {
        let stage = Stage::new(sdk).await;
        let mut found = BTreeMap::new();
        for behaviour in behaviours() {
            let outcome = cases::run(&stage, &behaviour.id).await;
            println!("{sdk} {}: {outcome:?}", behaviour.id);
            found.insert(behaviour.id, outcome);
        }

        serde_json::to_string(&found).expect("JSON")
    };

    let found = ControlPlane::shared()
        .await
        .once(&format!("outcomes-{sdk}"), run)
        .await;
    serde_json::from_str(&found).expect("outcomes")
}

async fn conforms(sdk: &'static str) {
    let wrong = |(id, outcome): (&String, &Outcome)| match outcome {
        Outcome::Failed(why) => Some(format!("{id}: {why}")),
        Outcome::Shown | Outcome::Unsupported(_) => None,
    };

    let wrong: Vec<String> = outcomes(sdk).await.iter().filter_map(wrong).collect();
    assert!(
        wrong.is_empty(),
        "the SDK for {sdk} does not conform:\n{}",
        wrong.join("\n")
    );
}

macro_rules! sdks {
    ($($test:ident: $name:literal),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                conforms($name).await;
            }
        )+

        #[test]
        fn each_sdk_has_a_test() {
            assert_eq!(SDKS, [$($name),+]);
        }
    };
}

sdks!(
    rust_conforms: "rust",
    go_conforms: "go",
    typescript_conforms: "typescript",
    python_conforms: "python",
    c_conforms: "c",
);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_in_docs_is_what_the_sdks_do() {
    let mut found = BTreeMap::new();
    for sdk in SDKS {
        found.insert(*sdk, outcomes(sdk).await);
    }
    table::check(&behaviours(), &found);
}
