//! Custom resources of other projects: their definitions, with valid and invalid objects.

mod modules;
mod spoilt;

use serde_json::{Value, json};

use super::{random::Random, seed};
use crate::{exchange::Request, runner::Runner};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// How many samples of a kind's version are taken from each end of their list. The last ones may be
/// invalid.
const SAMPLES: usize = 2;
/// Larger definitions are only compared live, to keep the recording small.
const LARGEST_RECORDED: usize = 24 << 10;

pub async fn run(runner: &mut Runner) {
    let mut random = Random(seed());
    let mut definitions = 0;

    for project in modules::projects() {
        for (name, definition) in &project.definitions {
            definitions += 1;
            runner.is_recording = definition.to_string().len() <= LARGEST_RECORDED;

            runner
                .send(Request::post(
                    format!("{CRDS}?fieldValidation=Strict"),
                    definition,
                ))
                .await;

            runner
                .wait(
                    &format!("{CRDS}/{name}"),
                    200,
                    "/status/conditions/1/status",
                    &json!("True"),
                )
                .await;

            for version in definition["spec"]["versions"]
                .as_array()
                .into_iter()
                .flatten()
            {
                if version["served"] == true {
                    objects(runner, &mut random, definition, version, &project.samples).await;
                }
            }

            runner.send(Request::delete(format!("{CRDS}/{name}"))).await;
            runner
                .wait(&format!("{CRDS}/{name}"), 404, "", &Value::Null)
                .await;
        }
    }

    runner.is_recording = true;
    assert!(definitions >= 50, "{definitions} definitions");
}

/// Creates objects of a version: the project's samples, one from the schema, and invalid ones.
async fn objects(
    runner: &mut Runner,
    random: &mut Random,
    definition: &Value,
    version: &Value,
    samples: &std::collections::BTreeMap<(String, String), Vec<Value>>,
) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let spec = &definition["spec"];
    let kind = text(&spec["names"]["kind"]);
    let api_version = format!("{}/{}", text(&spec["group"]), text(&version["name"]));
    let is_namespaced = spec["scope"] == "Namespaced";

    let namespace = if is_namespaced {
        "namespaces/default/"
    } else {
        ""
    };

    let path = format!(
        "/apis/{api_version}/{namespace}{}",
        text(&spec["names"]["plural"])
    );
    runner.wait(&path, 200, "", &Value::Null).await;

    let document = format!("/openapi/v3/apis/{api_version}");
    let listed =
        format!("/apis/{api_version}/{}", text(&spec["names"]["plural"])).replace('/', "~1");

    runner
        .wait(
            &document,
            200,
            &format!("/paths/{listed}/get/x-kubernetes-action"),
            &json!("list"),
        )
        .await;

    runner.send(Request::get(document)).await;

    let schema = &version["schema"]["openAPIV3Schema"];
    let mut good = vec![spoilt::minimal(schema)];

    let samples = samples
        .get(&(api_version.clone(), kind.clone()))
        .map(Vec::as_slice)
        .unwrap_or_default();
    let is_taken = |index: &usize| *index < SAMPLES || index + SAMPLES >= samples.len();

    good.extend(
        (0..samples.len())
            .filter(is_taken)
            .map(|index| samples[index].clone()),
    );

    for (index, mut object) in good.into_iter().enumerate() {
        object["apiVersion"] = api_version.as_str().into();
        object["kind"] = kind.as_str().into();
        object["metadata"] = json!({"name": format!("sample-{index}")});

        runner
            .send(Request::post(
                format!("{path}?fieldValidation=Strict"),
                &object,
            ))
            .await;

        for bad in spoilt::spoilt(random, schema, &object) {
            runner
                .send(Request::post(
                    format!("{path}?dryRun=All&fieldValidation=Strict"),
                    &bad,
                ))
                .await;
        }
    }

    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    runner
        .send(Request::get(path).header("Accept", table))
        .await;
}
