//! Hot swap: new code takes over while keys change, and no key is lost.

use operetta_testkit::{DropIn, TestNamespace, eventually, guest, kinds};
use serde_json::{Value, json};

use crate::Stage;

const KEYS: usize = 60;

async fn until_all_touched(namespace: &TestNamespace<'_>, count: usize, value: &str) {
    eventually(
        &format!("{count} ConfigMaps touched by {value}"),
        async || {
            let all = namespace.list(kinds::CONFIG_MAP).await;
            let targets = all
                .iter()
                .filter(|found| found["metadata"]["labels"]["operetta-fixture"] == "true");
            let touched = targets
                .filter(|found| found["data"]["touched"] == value)
                .count();
            if touched == count {
                Ok(())
            } else {
                Err(format!("{touched} of {count}"))
            }
        },
    )
    .await;
}

fn code(version: &str) -> Value {
    let mut object = DropIn::new("touch", guest(&format!("fixture-touch-{version}"))).object();
    // What the patch is about: the code alone.
    object["metadata"] = json!({});
    object
}

#[tokio::test]
async fn swap_reconciles_every_key_with_new_code() {
    let stage = Stage::new("swapped").await;
    let namespace = &stage.namespace;
    for at in 0..KEYS {
        namespace.create_touchable(&format!("key-{at}")).await;
    }

    namespace
        .drop_in(&DropIn::new("touch", guest("fixture-touch-v1")))
        .await;
    until_all_touched(namespace, KEYS, "v1").await;

    let digest = |plugin: &Value| {
        plugin["status"]["digest"]
            .as_str()
            .map(str::to_owned)
            .ok_or("no digest".to_owned())
    };
    let before = namespace.until(kinds::PLUGIN, "touch", digest).await;

    // Old keys change and new ones come, before, while and after the new code takes over.
    let swapped = std::cell::Cell::new(false);
    let mut rounds = 0;
    let mut after = 0;

    let churn = async {
        while after < 20 {
            let name = format!("key-{}", rounds * 7 % KEYS);
            namespace
                .patch(
                    kinds::CONFIG_MAP,
                    &name,
                    json!({"data": {"touched": format!("by hand {rounds}")}}),
                )
                .await;

            if rounds % 5 == 0 {
                namespace.create_touchable(&format!("late-{rounds}")).await;
            }
            rounds += 1;
            after += usize::from(swapped.get());
        }
    };

    let swap = async {
        namespace
            .patch(kinds::CONFIG_MAP, "touch", code("v2"))
            .await;
        namespace
            .until(kinds::PLUGIN, "touch", |plugin| match digest(plugin) {
                Ok(now) if now != before => Ok(()),
                other => Err(format!("{other:?}")),
            })
            .await;
        swapped.set(true);
    };

    tokio::join!(churn, swap);
    until_all_touched(namespace, KEYS + rounds.div_ceil(5), "v2").await;
    namespace
        .until_condition("touch", "Degraded", "False", "AsExpected")
        .await;
    stage.others_keep_working().await;
}

#[tokio::test]
async fn failed_load_keeps_the_old_code() {
    let stage = Stage::new("bad-swap").await;
    let namespace = &stage.namespace;

    namespace
        .drop_in(&DropIn::new("touch", guest("fixture-touch-v1")))
        .await;
    namespace.create_touchable("first").await;
    until_all_touched(namespace, 1, "v1").await;

    let broken = DropIn::new("touch", *b"broken").object();
    namespace
        .patch(
            kinds::CONFIG_MAP,
            "touch",
            json!({"binaryData": broken["binaryData"]}),
        )
        .await;

    namespace
        .until_degraded("touch", "NotWasm", &["still running"])
        .await;
    let ready = namespace
        .plugin_condition("touch", "Ready")
        .await
        .expect("a condition");
    assert_eq!(ready.status, "True", "{ready:?}");

    namespace.create_touchable("second").await;
    until_all_touched(namespace, 2, "v1").await;

    namespace
        .patch(kinds::CONFIG_MAP, "touch", code("v2"))
        .await;
    until_all_touched(namespace, 2, "v2").await;
    namespace
        .until_condition("touch", "Degraded", "False", "AsExpected")
        .await;
}
