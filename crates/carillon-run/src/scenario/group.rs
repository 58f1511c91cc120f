//! `[group]`: receivers, helpers, and the tree of helpers.

use carillon_core::Span;
use serde::Deserialize;
use toml::Value;

/// `[group]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Group {
    pub receivers: Option<u32>,
    pub senders: u32,
    pub helpers: Option<HelperSelection>,
    pub helpers_if_any: bool,
    pub helper_dies: Option<Span>,
    pub death_told: Option<Span>,
    pub tree: Option<Tree>,
}

impl Default for Group {
    fn default() -> Self {
        Group {
            receivers: None,
            senders: 1,
            helpers: None,
            helpers_if_any: false,
            helper_dies: None,
            death_told: None,
            tree: None,
        }
    }
}

/// `group.helpers`
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "Value")]
pub(super) enum HelperSelection {
    /// Number of helpers, in addition to the receivers.
    Count(u32),
    /// These nodes.
    Nodes(Vec<u32>),
    /// The routers that receivers hang on.
    Exchanges,
    /// The receiver nearest to the source at each such router.
    Representatives,
}

impl TryFrom<Value> for HelperSelection {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let count = |value: &Value| value.as_integer().and_then(|count| u32::try_from(count).ok());
        let nodes =
            |values: &Vec<Value>| values.iter().map(count).collect::<Option<_>>().map(HelperSelection::Nodes);
        let read = match value.as_str() {
            Some("exchanges") => Some(HelperSelection::Exchanges),
            Some("representatives") => Some(HelperSelection::Representatives),
            _ => count(&value).map(HelperSelection::Count).or_else(|| value.as_array().and_then(nodes)),
        };
        read.ok_or_else(|| {
            format!(
                "{value} is neither a number of helpers nor a list of nodes, such as [1, 2], nor (graph) \"exchanges\" or \"representatives\""
            )
        })
    }
}

/// `group.tree`
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "Value")]
pub(super) enum Tree {
    /// Flat tree: all helpers are children of the sender.
    Flat,
    /// Path tree: each node is a child of the last helper on its path from the sender.
    Path,
    /// Balanced tree: this number of helpers below the sender and below each helper.
    Fanout(usize),
    /// Parent of each helper, optionally followed by the parent of each receiver: 0 is the sender, 1 the first
    /// helper.
    Parents(Vec<usize>),
}

impl TryFrom<Value> for Tree {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let number = |value: &Value| value.as_integer().and_then(|number| usize::try_from(number).ok());
        let read = match &value {
            Value::String(word) if word == "flat" => Some(Tree::Flat),
            Value::String(word) if word == "path" => Some(Tree::Path),
            Value::Array(parents) => parents.iter().map(number).collect::<Option<_>>().map(Tree::Parents),
            value => number(value).filter(|&fanout| fanout > 0).map(Tree::Fanout),
        };
        read.ok_or_else(|| {
            format!(
                "{value} is no tree: \"flat\", \"path\" (graph), a number of helpers below each node, such as 2, or a list of parents, such as [0, 1, 1]"
            )
        })
    }
}
