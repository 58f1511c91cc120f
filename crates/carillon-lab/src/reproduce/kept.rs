//! Values of experiment files: texts, lists, settings, and the files that they name.

use std::fmt;
use std::ops::Deref;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use toml::{Table, Value};

use crate::inputs;
use crate::scenario::{ScenarioError, ScenarioFile};

/// Value of a file that lives until the program ends (leaked on purpose): experiments are read once and copied
/// freely.
#[derive(Debug, PartialEq, Eq)]
pub struct Static<T: ?Sized + 'static>(pub &'static T);

/// Text of a file.
pub type Text = Static<str>;

/// A list of a file.
pub type List<T> = Static<[T]>;

/// Keys of scenarios and what they are set to: a table of texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings(pub &'static [(&'static str, &'static str)]);

impl<T: ?Sized> Clone for Static<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Static<T> {}

impl<T: ?Sized> Default for Static<T>
where
    &'static T: Default,
{
    fn default() -> Self {
        Static(Default::default())
    }
}

impl<T: ?Sized> Deref for Static<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Static(String::deserialize(from)?.leak()))
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Static(Vec::leak(Vec::deserialize(from)?)))
    }
}

impl<'de> Deserialize<'de> for Settings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let settings = Table::deserialize(from)?.into_iter().map(|(key, value)| match value {
            Value::String(value) => Ok((&*key.leak(), &*value.leak())),
            _ => Err(D::Error::custom(format!("`{key}`: settings are texts, as after --set"))),
        });
        Ok(Settings(settings.collect::<Result<Vec<_>, _>>()?.leak()))
    }
}

/// A file that an experiment names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Source {
    /// Path of the file.
    pub path: Text,
    /// Content of the file.
    pub text: Text,
}

impl Source {
    /// The scenario in it.
    pub fn scenario(&self) -> Result<ScenarioFile, ScenarioError> {
        inputs::parse(&self.path, &self.text)
    }
}
