//! The kube-rs side of Operetta's benches: the same work done by its reflector and Controller.
//!
//! - `peer-kube-rs rounds`: one question a line on stdin, one answer a line on stdout;
//! - `peer-kube-rs sync --kubeconfig F --peer P`: one line when the reflector is ready; ends with
//!   stdin.
//!
//! `../README.md` says what is in the lines. It exits with 1 and says why where there is no figure.
//! The allocator is the system's, as in a program that does not choose one;
//! `bin/peer-kube-rs-store.rs` counts its memory and is a program of its own for that.

mod get;
mod path;
mod sync;

use std::{
    error::Error,
    io::{self, BufRead},
    process::ExitCode,
};

use serde_json::json;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["rounds"] => rounds(),
        ["sync", "--kubeconfig", kubeconfig, "--peer", peer] => sync::sync(kubeconfig, peer),
        _ => Err("usage: peer-kube-rs rounds | sync --kubeconfig F --peer P".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{}", json!({"error": error.to_string()}));
            ExitCode::FAILURE
        }
    }
}

fn rounds() -> Outcome<()> {
    let mut path = path::Path::default();
    let mut held = get::Held::default();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let question: path::Question = serde_json::from_str(&line)?;
        let value = if question.metric.starts_with("store.get") {
            held.round(&serde_json::from_str(&line)?)?
        } else {
            path.round(&question)?
        };
        println!(
            "{}",
            json!({"metric": question.metric, "peer": question.peer, "samples": [value]})
        );
    }
    Ok(())
}
