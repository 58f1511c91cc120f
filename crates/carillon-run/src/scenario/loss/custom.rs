//! Loss models of the program that embeds the laboratory, by name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use carillon_sim::loss::{CustomRule, LossFunction};

/// Registered models. Scenarios keep those that they name, so a later registration changes no scenario that was read.
static MODELS: Mutex<BTreeMap<String, Arc<dyn LossFunction>>> = Mutex::new(BTreeMap::new());

/// Makes a loss model known to scenarios: sections with `model = "custom"` and `function` = its name. A model of the
/// same name is replaced.
pub fn register_loss(name: &str, function: Arc<dyn LossFunction>) {
    MODELS.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), function);
}

/// Rule with the model of this name.
pub(super) fn rule(name: &str) -> Result<CustomRule, String> {
    let models = MODELS.lock().unwrap_or_else(PoisonError::into_inner);
    match models.get(name) {
        Some(function) => Ok(CustomRule { name: name.to_owned(), function: function.clone() }),
        None if models.is_empty() => Err(format!(
            "is \"{name}\", and no function is registered: a program does that, for example in Python"
        )),
        None => {
            let known: Vec<&str> = models.keys().map(String::as_str).collect();
            Err(format!("is \"{name}\": registered are {}", known.join(", ")))
        }
    }
}
