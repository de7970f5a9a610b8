//! Writes, and helpers for them.

use operetta_sdk::k8s_openapi::api::apps::v1::Deployment;
use operetta_sdk::k8s_openapi::api::core::v1::ConfigMap;
use operetta_sdk::{
    DeleteOptions, DynamicObject, Kind, Object, OperationResult, Patch, Propagation, WriteOptions,
    set_controller_reference,
};
use serde_json::{Value, json};

use crate::widget::{Widget, WidgetStatus};
use crate::{Case, Seen, word, words};

pub(crate) fn create(case: &Case<'_>) -> Seen {
    let made = case
        .ctx
        .create(&case.config_map("create-made", &[("word", case.wanted("word")?)]))?;
    Ok(made.uid().unwrap_or_default().to_owned())
}

pub(crate) fn create_dry_run(case: &Case<'_>) -> Seen {
    let made = case.ctx.create_with(
        &case.config_map("dry-made", &[]),
        &WriteOptions::new().dry_run(),
    )?;
    Ok(made.name().to_owned())
}

pub(crate) fn create_strict(case: &Case<'_>) -> Seen {
    let key = case.map.key().beside("strict-made");
    let widget = DynamicObject::new(&Widget::gvk(), key).with("spec", json!({"wrong": 1}));
    words(case.ctx.create_with(&widget, &WriteOptions::new().strict()))
}

pub(crate) fn create_warning(case: &Case<'_>) -> Seen {
    let key = case.map.key().beside("warned-made");
    let widget = DynamicObject::new(&Widget::gvk(), key).with("spec", json!({"wrong": 1}));
    case.ctx.create(&widget)?;
    Ok(case.ctx.take_warnings().join("; "))
}

pub(crate) fn update(case: &Case<'_>) -> Seen {
    let mut map: ConfigMap = case.ctx.get(case.target()?)?;
    map.data
        .get_or_insert_default()
        .insert("word".to_owned(), "updated".to_owned());
    Ok(word(&case.ctx.update(&map)?))
}

pub(crate) fn update_status(case: &Case<'_>) -> Seen {
    let mut widget: Widget = case.ctx.get(case.target()?)?;
    widget.status = Some(WidgetStatus {
        phase: "ready".to_owned(),
    });
    widget.spec.touched = Some(true);
    let stored = case.ctx.update_status(&widget)?;
    Ok(format!(
        "{} {}",
        stored.status.unwrap_or_default().phase,
        stored.spec.touched.unwrap_or_default()
    ))
}

pub(crate) fn patch_merge(case: &Case<'_>) -> Seen {
    let patch = Patch::merge(&json!({"data": {"word": "merged", "other": null}}));
    let map: ConfigMap = case.ctx.patch(case.target()?, patch)?;
    let pairs: Vec<_> = map
        .data
        .iter()
        .flatten()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    Ok(pairs.join(","))
}

pub(crate) fn patch_json(case: &Case<'_>) -> Seen {
    let patch = Patch::json(&json!([{"op": "replace", "path": "/data/word", "value": "patched"}]));
    Ok(word(&case.ctx.patch(case.target()?, patch)?))
}

pub(crate) fn patch_apply(case: &Case<'_>) -> Seen {
    let key = case.target()?;
    let object = json!({"metadata": {"name": key.name}, "data": {"word": "applied"}});
    let refused = words(case.ctx.patch::<ConfigMap>(&key, Patch::apply(&object)))?;
    let applied: ConfigMap = case.ctx.patch(&key, Patch::apply(&object).force())?;
    Ok(format!("{refused}; {}", word(&applied)))
}

pub(crate) fn patch_scale(case: &Case<'_>) -> Seen {
    let patch = Patch::merge(&json!({"spec": {"replicas": 3}})).subresource("scale");
    let scale = case
        .ctx
        .dynamic(&Deployment::gvk())
        .patch(case.target()?, patch)?;
    Ok(scale
        .pointer("/spec/replicas")
        .map_or_else(String::new, Value::to_string))
}

fn delete_with(case: &Case<'_>, options: &DeleteOptions) -> Seen {
    case.ctx.delete_key::<ConfigMap>(case.target()?, options)?;
    Ok("deleted".to_owned())
}

pub(crate) fn delete(case: &Case<'_>) -> Seen {
    delete_with(case, &DeleteOptions::new())
}

pub(crate) fn delete_orphan(case: &Case<'_>) -> Seen {
    delete_with(case, &DeleteOptions::new().propagation(Propagation::Orphan))
}

pub(crate) fn delete_precondition(case: &Case<'_>) -> Seen {
    let other = DeleteOptions::new().if_uid("00000000-0000-0000-0000-000000000000");
    words(case.ctx.delete_key::<ConfigMap>(case.target()?, &other))
}

pub(crate) fn create_or_update(case: &Case<'_>) -> Seen {
    let bring_to = |wanted: &str| {
        let set = |map: &mut ConfigMap| {
            map.data
                .get_or_insert_default()
                .insert("word".to_owned(), wanted.to_owned());
            Ok(())
        };
        let (_, result) = case
            .ctx
            .create_or_update(case.config_map("cou-made", &[]), set)?;
        Ok::<_, operetta_sdk::Error>(match result {
            OperationResult::Created => "created",
            OperationResult::Updated => "updated",
            OperationResult::Unchanged => "unchanged",
        })
    };
    Ok(format!(
        "{} {} {}",
        bring_to("1")?,
        bring_to("1")?,
        bring_to("2")?
    ))
}

pub(crate) fn owner_reference(case: &Case<'_>) -> Seen {
    let mut child = case.config_map("owned-made", &[]);
    child
        .labels_mut()
        .insert("conformance".to_owned(), "child".to_owned());
    set_controller_reference(&case.map, &mut child)?;
    case.ctx.create(&child)?;
    Ok("created".to_owned())
}
