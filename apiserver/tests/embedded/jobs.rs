//! Jobs, from their first Pod to their end.

use operetta_apiserver::ControllerName as Name;
use serde_json::{Value, json};

use crate::client::Client;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const JOB: &str = "/apis/batch/v1/namespaces/default/jobs/job";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn cluster() -> Client {
    Client::with_controllers([
        Name::GarbageCollector,
        Name::Jobs,
        Name::FinishedJobs,
        Name::Scheduler,
        Name::Kubelet,
    ])
}

/// Starts a server whose Pods end when the test says so.
fn manual() -> Client {
    Client::with_controllers([Name::GarbageCollector, Name::Jobs])
}

fn job(spec: &Value) -> Value {
    let mut object = json!({"metadata": {"name": "job"}, "spec": spec});
    object["spec"]["template"] = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "nginx"}]}});
    object
}

async fn status(client: &Client) -> Value {
    client.get(JOB).await.1["status"].clone()
}

/// Returns the conditions with their reasons.
fn conditions(status: &Value) -> Vec<String> {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();

    conditions
        .iter()
        .map(|one| {
            format!(
                "{} {} {}",
                text(&one["type"]),
                text(&one["status"]),
                text(&one["reason"])
            )
        })
        .collect()
}

/// Sets the phase of the Pods that still run.
async fn end_pods(client: &Client, phase: &str) {
    for pod in client.list(PODS).await {
        let is_over = matches!(
            pod["status"]["phase"].as_str(),
            Some("Succeeded" | "Failed")
        );

        let name = pod["metadata"]["name"].as_str().expect("a name");
        if !is_over {
            client
                .patch(
                    &format!("{PODS}/{name}/status"),
                    &json!({"status": {"phase": phase}}),
                )
                .await;
        }
    }

    client.settle().await;
}

#[tokio::test(start_paused = true)]
async fn job_completes_as_in_a_cluster() {
    let client = cluster();
    client
        .create(JOBS, &job(&json!({"completions": 3, "parallelism": 2})))
        .await;
    client.settle().await;

    let mut status = status(&client).await;
    assert_eq!(
        conditions(&status),
        [
            "SuccessCriteriaMet True CompletionsReached",
            "Complete True CompletionsReached"
        ]
    );

    let members = status.as_object_mut().expect("a status");
    for time in ["startTime", "completionTime"] {
        assert!(
            members.remove(time).is_some_and(|time| time.is_string()),
            "{time}"
        );
    }

    members.remove("conditions");
    // As kube-controller-manager 1.36.2 writes it.
    assert_eq!(
        status,
        json!({"ready": 0, "succeeded": 3, "terminating": 0, "uncountedTerminatedPods": {}})
    );

    let pods = client.list(PODS).await;
    assert_eq!(pods.len(), 3);
    assert!(
        pods.iter()
            .all(|pod| pod["metadata"]["finalizers"].is_null()),
        "all are counted"
    );
}

#[tokio::test(start_paused = true)]
async fn job_runs_as_many_pods_as_its_parallelism() {
    let client = manual();
    client
        .create(JOBS, &job(&json!({"completions": 3, "parallelism": 2})))
        .await;
    client.settle().await;
    assert_eq!(
        (
            status(&client).await["active"].clone(),
            client.list(PODS).await.len()
        ),
        (json!(2), 2)
    );

    end_pods(&client, "Succeeded").await;
    let found = status(&client).await;
    assert_eq!(
        (&found["active"], &found["succeeded"]),
        (&json!(1), &json!(2))
    );

    // Deleted Pods that were counted stay counted.
    for name in client.names(PODS).await {
        client.delete(&format!("{PODS}/{name}"), "").await;
    }
    client.settle().await;
    assert_eq!(status(&client).await["succeeded"], 2);

    end_pods(&client, "Succeeded").await;
    assert_eq!(status(&client).await["succeeded"], 3);
}

#[tokio::test(start_paused = true)]
async fn failed_pods_are_replaced_later_and_later_up_to_the_limit() {
    let client = manual();
    client.create(JOBS, &job(&json!({"backoffLimit": 2}))).await;
    client.settle().await;

    for (failures, delay) in [(1, 10_000), (2, 20_000)] {
        end_pods(&client, "Failed").await;
        assert_eq!(client.list(PODS).await.len(), failures);

        client.pass(delay - 1500).await;
        assert_eq!(
            client.list(PODS).await.len(),
            failures,
            "the next Pod waits"
        );

        client.pass(2000).await;
        assert_eq!(client.list(PODS).await.len(), failures + 1);
    }

    end_pods(&client, "Failed").await;
    let mut found = status(&client).await;
    assert_eq!(
        conditions(&found),
        [
            "FailureTarget True BackoffLimitExceeded",
            "Failed True BackoffLimitExceeded"
        ]
    );

    assert_eq!(
        found["conditions"][1]["message"],
        "Job has reached the specified backoff limit"
    );

    for member in ["conditions", "startTime"] {
        found.as_object_mut().expect("a status").remove(member);
    }

    assert_eq!(
        found,
        json!({"failed": 3, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}})
    );
}

#[tokio::test(start_paused = true)]
async fn job_past_its_deadline_fails() {
    let client = manual();
    client
        .create(JOBS, &job(&json!({"activeDeadlineSeconds": 60})))
        .await;
    client.pass(58_000).await;
    assert!(conditions(&status(&client).await).is_empty());

    client.pass(4000).await;
    let found = status(&client).await;

    assert_eq!(
        conditions(&found),
        [
            "FailureTarget True DeadlineExceeded",
            "Failed True DeadlineExceeded"
        ]
    );
    assert!(client.list(PODS).await.is_empty(), "its Pod was deleted");
}

#[tokio::test(start_paused = true)]
async fn finished_job_is_deleted_after_its_time_to_live() {
    let client = cluster();
    client
        .create(JOBS, &job(&json!({"ttlSecondsAfterFinished": 30})))
        .await;

    client.pass(29_000).await;
    assert_eq!(client.get(JOB).await.0, 200);

    client.pass(5000).await;
    assert_eq!(client.get(JOB).await.0, 404);
    assert!(client.list(PODS).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn suspended_job_has_no_pods() {
    let client = manual();
    client.create(JOBS, &job(&json!({"suspend": true}))).await;
    client.settle().await;
    let found = status(&client).await;
    assert_eq!(
        (conditions(&found), &found["startTime"]),
        (vec!["Suspended True JobSuspended".to_owned()], &Value::Null)
    );

    client
        .patch(JOB, &json!({"spec": {"suspend": false}}))
        .await;
    client.settle().await;

    assert_eq!(
        conditions(&status(&client).await),
        ["Suspended False JobResumed"]
    );
    assert_eq!(client.list(PODS).await.len(), 1);

    client.patch(JOB, &json!({"spec": {"suspend": true}})).await;
    client.settle().await;
    assert!(client.list(PODS).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn indexed_job_has_a_pod_for_each_index() {
    let client = cluster();
    client
        .create(
            JOBS,
            &job(&json!({"completions": 4, "parallelism": 3, "completionMode": "Indexed"})),
        )
        .await;
    client.settle().await;

    let found = status(&client).await;
    assert_eq!(
        (&found["completedIndexes"], &found["succeeded"]),
        (&json!("0-3"), &json!(4))
    );

    let pods = client.list(PODS).await;
    let mut hosts: Vec<_> = pods
        .iter()
        .map(|pod| pod["spec"]["hostname"].clone())
        .collect();
    hosts.sort_by_key(|host| host.as_str().map(str::to_owned));
    assert_eq!(hosts, ["job-0", "job-1", "job-2", "job-3"]);

    assert_eq!(
        pods[0]["spec"]["containers"][0]["env"][0]["name"],
        "JOB_COMPLETION_INDEX"
    );
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_job_can_end() {
    let client = manual();
    client.create(JOBS, &job(&json!({}))).await;

    client.settle().await;
    assert_eq!(client.list(PODS).await.len(), 1);

    client.delete(JOB, "Background").await;
    client.settle().await;
    assert!(
        client.list(PODS).await.is_empty(),
        "the finalizer does not hold them"
    );
}
