//! Reads.

use operetta_sdk::k8s_openapi::api::core::v1::ConfigMap;
use operetta_sdk::{Error, ListOptions, Object, Patch, ResultExt};
use serde_json::json;

use crate::{Case, Seen, variant, word, word_of};

fn names(maps: &[ConfigMap]) -> String {
    maps.iter().map(Object::name).collect::<Vec<_>>().join(",")
}

impl Case<'_> {
    fn here(&self) -> ListOptions {
        ListOptions::in_namespace(self.namespace())
    }

    fn selected(&self) -> Result<ListOptions, Error> {
        Ok(self.here().labels(self.wanted("selector")?))
    }
}

pub(crate) fn get_cached(case: &Case<'_>) -> Seen {
    Ok(word(&case.ctx.get(case.target()?)?))
}

pub(crate) fn get_live(case: &Case<'_>) -> Seen {
    Ok(word(&case.ctx.get_live(case.target()?)?))
}

pub(crate) fn list_labels(case: &Case<'_>) -> Seen {
    Ok(names(&case.ctx.list(case.selected()?)?))
}

pub(crate) fn list_fields(case: &Case<'_>) -> Seen {
    let fields = format!("metadata.name={}", case.wanted("target")?);
    Ok(names(&case.ctx.list(case.here().fields(fields))?))
}

pub(crate) fn list_empty(case: &Case<'_>) -> Seen {
    Ok(case
        .ctx
        .list::<ConfigMap>(case.selected()?)?
        .len()
        .to_string())
}

pub(crate) fn list_paged(case: &Case<'_>) -> Seen {
    let mut maps = Vec::new();
    let mut pages = 0;
    let mut token = None::<String>;
    loop {
        let options = case.selected()?.live().page_size(2);
        let options = match token {
            Some(token) => options.continue_from(token),
            None => options,
        };
        let page = case.ctx.list_page::<ConfigMap>(&options)?;
        maps.extend(page.items);
        pages += 1;
        token = page.continue_token;
        if token.is_none() {
            return Ok(format!("{} {pages}", names(&maps)));
        }
    }
}

pub(crate) fn list_index(case: &Case<'_>) -> Seen {
    Ok(names(&case.ctx.list(
        case.here().index("colour", case.wanted("colour")?),
    )?))
}

pub(crate) fn list_label_index(case: &Case<'_>) -> Seen {
    Ok(names(
        &case
            .ctx
            .list(case.here().index("app", case.wanted("app")?))?,
    ))
}

pub(crate) fn list_owner_index(case: &Case<'_>) -> Seen {
    Ok(names(
        &case
            .ctx
            .list(case.here().index("owner", case.wanted("owner")?))?,
    ))
}

pub(crate) fn list_owner(case: &Case<'_>) -> Seen {
    Ok(names(
        &case.ctx.list(case.here().owner_uid(case.wanted("uid")?))?,
    ))
}

pub(crate) fn list_projection(case: &Case<'_>) -> Seen {
    let maps = case
        .ctx
        .list::<ConfigMap>(case.selected()?.project([".data.word"]))?;
    let pairs: Vec<_> = maps
        .iter()
        .map(|map| format!("{}={}", map.name(), word(map)))
        .collect();
    let other = maps.iter().any(|map| word_of(map, "other").is_some());
    Ok(format!("{} {other}", pairs.join(",")))
}

pub(crate) fn read_own_write(case: &Case<'_>) -> Seen {
    let ctx = case.ctx;
    let mut made = case.config_map("read-own-write-made", &[("word", "1")]);
    made.labels_mut()
        .insert("conformance".to_owned(), "made".to_owned());
    let key = made.key();
    // An interrupted earlier call may have left the object.
    if let Some(old) = ctx.get_opt::<ConfigMap>(&key)? {
        ctx.delete(&old).context("delete the leftover")?;
    }
    ctx.create(&made)?;
    let mut read: ConfigMap = ctx.get(&key)?;
    let first = word(&read);
    read.data
        .get_or_insert_default()
        .insert("word".to_owned(), "2".to_owned());
    ctx.update(&read)?;
    let second = word(&ctx.get(&key)?);
    let listed = ctx.list::<ConfigMap>(case.here().labels("conformance=made"))?;
    let held = listed
        .iter()
        .any(|map| map.name() == key.name && word(map) == "2");
    ctx.delete_key::<ConfigMap>(&key, &operetta_sdk::DeleteOptions::new())?;
    let last = ctx
        .get::<ConfigMap>(&key)
        .err()
        .ok_or_else(|| Error::msg("it still exists"))?;
    Ok(format!("{first} {second} {held} {}", variant(&last)))
}

/// Appends this run's retries to `data.runs` of the target, and returns the number of runs.
///
/// # Errors
/// Returns an error if the case has no target, or a call fails.
pub(crate) fn append_run(case: &Case<'_>) -> Result<usize, Error> {
    let key = case.target()?;
    let before = case.ctx.get_live::<ConfigMap>(&key)?;
    let runs = format!(
        "{}{} ",
        word_of(&before, "runs").unwrap_or_default(),
        case.ctx.request().retries
    );
    case.ctx
        .patch::<ConfigMap>(&key, Patch::merge(&json!({"data": {"runs": runs}})))?;
    Ok(runs.split_whitespace().count())
}
