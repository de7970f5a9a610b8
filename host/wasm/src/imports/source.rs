//! `operetta:development/source`: gives an interpreter the author's source. Only `operetta dev`
//! links it.

use wasmtime::{Result, component::Linker};

use crate::{cut, store::StoreData};

/// The maximum length of an interpreter's report, in bytes.
const MAX_PROBLEM: usize = 2048;

/// Interpreters import their source from here.
pub(crate) const SOURCE: &str = "operetta:development/source@0.1.0";

pub(super) fn add_to_linker(linker: &mut Linker<StoreData>) -> Result<()> {
    let mut source = linker.instance(SOURCE)?;
    source.func_wrap("get", |store, ()| {
        let evaluated = store.data().evaluated.as_ref();
        Ok((evaluated
            .map(|evaluated| evaluated.source.to_string())
            .unwrap_or_default(),))
    })?;

    source.func_wrap("fail", |mut store, (message,): (String,)| {
        if let Some(evaluated) = &mut store.data_mut().evaluated {
            evaluated.problem = Some(cut(message, MAX_PROBLEM));
        }
        Ok(())
    })
}
