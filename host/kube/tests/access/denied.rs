//! An authorizer before RBAC that denies some requests: exact access reviews show a plugin what the
//! API server would show it. The default, which asks about all namespaces first, shows what that
//! authorizer denies; decision 23 says why.

use operetta_testkit::{ControlPlane, authorizer, eventually, needs_real_server};
use serde_json::Value;

use crate::{
    can_i, compare,
    stage::{Reviews, Rights, Stage},
    ways::{Cell, Kind, Way},
};

/// The accounts that the authorizer denies something: `two` has rights in each namespace, `own` and
/// `wide` in all.
const DENIED: [&str; 3] = ["own", "two", "wide"];

/// Denies the third namespace, the Secret of the second one, and to `own` lists and watches of all
/// namespaces.
fn denies(review: &Value) -> bool {
    let attributes = &review["resourceAttributes"];
    let text = |field: &str| attributes[field].as_str().unwrap_or_default();
    let is_own = review["user"]
        .as_str()
        .is_some_and(|user| user.ends_with(":own"));
    text("namespace").contains("-third-")
        || (text("namespace").contains("-other-")
            && text("resource") == "secrets"
            && text("name") == "one")
        || (is_own && ["list", "watch"].contains(&text("verb")) && text("namespace").is_empty())
}

async fn stage<'a>(control_plane: &'a ControlPlane, prefix: &str, exact: bool) -> Stage<'a> {
    let mut stage = Stage::on(
        control_plane,
        prefix,
        Reviews {
            told_of_changes: true,
            exact,
        },
    )
    .await;
    let third = Some(stage.locations[2].clone());
    stage.toggle("two", third, Rights::ReadAll).await;
    stage.toggle("own", None, Rights::ReadAll).await;
    stage
}

/// What RBAC allows `wide` and the authorizer denies: an object by its namespace, a list of that
/// namespace, and an object by its name.
fn denied_reads(stage: &Stage<'_>) -> [Cell; 3] {
    let cell = |way, kind, at: usize| {
        let location = Some(stage.locations[at].clone());
        Cell {
            account: "wide",
            way,
            kind,
            location,
        }
    };
    [
        cell(Way::CachedGet, Kind::ConfigMap, 2),
        cell(Way::CachedList, Kind::ConfigMap, 2),
        cell(Way::CachedGet, Kind::Secret, 1),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn exact_reviews_equal_kubectl_can_i_behind_denying_webhook() {
    if needs_real_server("its API server asks an authorization webhook") {
        return;
    }
    let control_plane =
        authorizer::control_plane("request.user.startsWith('system:serviceaccount:')", denies);
    let exact = stage(&control_plane, "exact", true).await;
    let cells: Vec<Cell> = exact
        .cells()
        .into_iter()
        .filter(|cell| DENIED.contains(&cell.account))
        .collect();
    let expected = can_i(&exact, &cells);
    eventually("the table", async || {
        compare(&exact, &cells, &expected).await
    })
    .await;
    for cell in denied_reads(&exact) {
        assert!(
            !expected[&cell.questions(&exact)[0]],
            "{cell:?}: kubectl auth can-i"
        );
    }
    for cell in cells
        .iter()
        .filter(|cell| matches!(cell.way, Way::CachedGet | Way::CachedList))
    {
        let direct = exact.direct(cell).await;
        if cell.location.is_some() || direct.is_some() {
            assert_eq!(
                exact.look(cell).await,
                Ok(direct.is_some()),
                "{cell:?}: the account's own request"
            );
        }
        // A list of all namespaces is one request, which the authorizer allows `wide`.
        if let Some(Value::Array(items)) = direct.map(|mut list| list["items"].take()) {
            assert_eq!(
                exact.shown(cell).await,
                exact.namespaces_of(&items),
                "{cell:?}: the account's own list"
            );
        }
    }
    println!(
        "{} cells equal to {} answers of kubectl auth can-i",
        cells.len(),
        expected.len()
    );

    let default = stage(&control_plane, "default", false).await;
    for cell in denied_reads(&default) {
        assert!(
            default.direct(&cell).await.is_none(),
            "{cell:?}: the account's own request"
        );
        eventually(
            "the read passes the authorizer by, as decision 23 says",
            async || match default.look(&cell).await {
                Ok(true) => Ok(()),
                other => Err(format!("{cell:?}: {other:?}")),
            },
        )
        .await;
    }
}
