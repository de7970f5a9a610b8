//! The sources of requests.

mod deploy;
mod details;
mod go;
mod kubectl;
mod random;
mod sessions;
mod tables;
mod upstream;

use serde_json::{Value, json};

use crate::{exchange::Request, runner::Runner};

/// Runs the sources that a list names, or all.
pub async fn run(runner: &mut Runner, wanted: &str) {
    tables::authz::aggregate(runner).await;

    macro_rules! sources {
        ($($name:literal => $source:expr;)*) => {$(
            if wanted == "all" || wanted.split(',').any(|name| name == $name) {
                runner.source = $name;
                $source(runner).await;
            }
        )*};
    }

    sources! {
        "http" => tables::http::run;
        "kinds" => tables::kinds::run;
        "apply" => tables::apply::run;
        "definitions" => tables::crd::definitions;
        "objects" => tables::crd::objects;
        "authz" => tables::authz::run;
        "impersonation" => tables::impersonation::run;
        "admission" => tables::admission::run;
        "policies" => tables::admission::policies;
        "random" => random::run;
        "kubectl" => kubectl::run;
        "details" => details::run;
        "go" => go::run;
        "deploy" => deploy::run;
        "sessions" => sessions::run;
        "upstream" => upstream::run;
    }
}

/// The seed of random choices: `DIFFERENTIAL_SEED`, or a fixed one that keeps recordings stable.
fn seed() -> u64 {
    let seed = std::env::var("DIFFERENTIAL_SEED")
        .ok()
        .filter(|seed| !seed.is_empty());
    seed.map_or(20_261, |seed| {
        seed.parse().expect("DIFFERENTIAL_SEED is a number")
    })
}

/// The path of another test's table.
fn tests(file: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(file)
}

fn table(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(tests(file)).expect("a table");
    serde_json::from_str(&text).expect("a table")
}

/// The path of an object's collection.
fn collection(object: &Value) -> String {
    let (version, kind) = (
        object["apiVersion"].as_str().expect("a version"),
        object["kind"].as_str().expect("a kind"),
    );

    let lower = kind.to_lowercase();
    let plural = match lower.as_str() {
        "networkpolicy" | "validatingadmissionpolicy" => {
            format!("{}ies", lower.trim_end_matches('y'))
        }
        "endpoints" => lower,
        _ if lower.ends_with("class") || lower.ends_with("ss") => format!("{lower}es"),
        _ => format!("{lower}s"),
    };

    let root = if version.contains('/') {
        "/apis/"
    } else {
        "/api/"
    };

    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{root}{version}/namespaces/{namespace}/{plural}"),
        None => format!("{root}{version}/{plural}"),
    }
}

fn path(object: &Value) -> String {
    format!(
        "{}/{}",
        collection(object),
        object["metadata"]["name"].as_str().expect("a name")
    )
}

/// An object without what the server adds.
fn bare(object: &Value) -> Value {
    let mut object = object.clone();

    if let Some(metadata) = object["metadata"].as_object_mut() {
        for key in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
            "generation",
        ] {
            metadata.remove(key);
        }
    }

    object
}

/// Creates an object on both servers.
async fn create(runner: &mut Runner, object: &Value) {
    let object = bare(object);
    runner
        .send(Request::post(collection(&object), &object))
        .await;
}

/// Creates a namespace on both servers.
async fn namespace(runner: &mut Runner, name: &str) {
    create(
        runner,
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
    )
    .await;
}
