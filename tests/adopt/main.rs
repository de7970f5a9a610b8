//! Operators in Go that know nothing of the host, unmodified: each runs in its own process and then as a
//! process of the host, gets the same samples, and must make the same objects of them.
//!
//! `make test-adopt CASES=FOLDER` runs the operators of a folder, each of which is a file: `case.rs`
//! says what it contains. `SOURCES=FOLDER` takes their sources from a folder instead of cloning them, and
//! `ONLY="a b"` runs some. Both runs have a control plane of their own, with the same programs, where
//! the scheduler and kwok let Pods become ready. The dumps contain all objects that were created since
//! the operator started, by whomever.
//!
//! Webhook configurations are installed in neither run, and CRDs convert nothing.

mod build;
mod case;
mod dump;
mod native;
mod runs;

use std::{env, fs, path::PathBuf};

use operetta_testkit::{repository, usage::megabytes};

use crate::{
    build::Built,
    case::Case,
    dump::Difference,
    runs::{Outcome, run_as_process, run_natively},
};

/// The case of this repository, which needs no other one.
const OWN: &str = "tests/adopt/cases";

/// What was compared of an operator.
struct Compared {
    /// The objects of both runs, in all steps.
    objects: usize,
    /// Those without an exception, by step.
    differences: Vec<(usize, Difference)>,
    /// How many differences each exception explains.
    excused: Vec<usize>,
}

fn compare(case: &Case, native: &Outcome, process: &Outcome) -> Compared {
    let mut compared = Compared {
        objects: 0,
        differences: Vec::new(),
        excused: vec![0; case.exceptions.len()],
    };
    for (step, (native, process)) in native.dumps.iter().zip(&process.dumps).enumerate() {
        compared.objects += native.0.len();
        for difference in native.differences(process) {
            match case.exception(&difference) {
                Some(index) => compared.excused[index] += 1,
                None => compared.differences.push((step, difference)),
            }
        }
    }
    compared
}

/// Runs an operator in both ways, and returns its row of the report.
///
/// # Errors
/// Returns why it could not be built or run, or how the objects differ.
async fn adopt(case: &Case) -> Result<String, String> {
    let building = case.clone();
    let built = tokio::task::spawn_blocking(move || Built::of(&building))
        .await
        .map_err(|error| error.to_string())??;

    let folder = built.folder.join("run");
    let _of_an_earlier_run = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;

    let native = run_natively(case, &built, &folder).await?;
    let process = run_as_process(case, &built, &folder, &native).await?;
    let compared = compare(case, &native, &process);
    if !compared.differences.is_empty() {
        return Err(report_differences(&compared.differences));
    }

    let exceptions: Vec<String> = case
        .exceptions
        .iter()
        .zip(&compared.excused)
        .filter(|(_, count)| **count > 0)
        .map(|(exception, count)| format!("{} ({count})", exception.because))
        .collect();
    Ok(format!(
        "{}: {} objects in {} steps are equal; exceptions: {}\n  \
         component {:.0} MB, loaded in {:.1} s; settled in {:.1} s (natively {:.1} s); \
         memory {:.0} MB (natively {:.0} MB); CPU in 10 s at rest {} ms (natively {} ms)",
        case.name,
        compared.objects,
        case.steps.len(),
        match exceptions.join("; ") {
            none if none.is_empty() => "none".to_owned(),
            some => some,
        },
        built.component_bytes as f64 / 1e6,
        process.loaded.as_secs_f64(),
        process.settled.as_secs_f64(),
        native.settled.as_secs_f64(),
        megabytes(process.memory_bytes),
        megabytes(native.memory_bytes),
        process.idle.as_millis(),
        native.idle.as_millis(),
    ))
}

fn report_differences(differences: &[(usize, Difference)]) -> String {
    let lines = differences.iter().take(60).map(|(step, difference)| {
        let Difference {
            object,
            path,
            native,
            process,
        } = difference;
        let text = |value: &Option<serde_json::Value>| match value {
            Some(value) => value.to_string().chars().take(400).collect(),
            None => "nothing".to_owned(),
        };
        format!(
            "  step {step}: {object} {path}\n    natively   {}\n    as process {}",
            text(native),
            text(process)
        )
    });
    let lines: Vec<String> = lines.collect();
    format!("{} differences:\n{}", differences.len(), lines.join("\n"))
}

#[tokio::test]
#[ignore = "builds whole operators: make test-adopt"]
async fn operators_make_the_same_objects_as_in_their_own_process() {
    let folder = env::var_os("CASES").filter(|folder| !folder.is_empty());
    let folder = folder.map_or_else(|| repository().join(OWN), PathBuf::from);
    let only = env::var("ONLY").unwrap_or_default();
    let only: Vec<&str> = only.split_whitespace().collect();
    let cases = Case::read_all(&folder, &only).unwrap_or_else(|error| panic!("{error}"));
    assert!(!cases.is_empty(), "{} has no cases", folder.display());

    let mut failed = Vec::new();
    for case in &cases {
        match adopt(case).await {
            Ok(row) => println!("{row}"),
            Err(error) => {
                println!("{}: FAILED: {error}", case.name);
                failed.push(case.name.as_str());
            }
        }
    }
    assert!(failed.is_empty(), "failed: {}", failed.join(", "));
}
