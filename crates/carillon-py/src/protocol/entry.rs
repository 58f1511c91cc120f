//! Registration of protocols that are written in Python.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use carillon_core::{
    About, BuildContext, Config, ConfigError, DeliveryProperties, HeaderBytes, Kind, Machine,
    PacketProperties, Parameter, ProtocolEntry, Role, Setting,
};
use carillon_testkit::conformance;
use pyo3::exceptions::{PyAssertionError, PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::failure::{note_failure, take_failure};
use super::machine::PyMachine;
use super::words::word;

/// Maximum number of protocols from Python. Constructors in registry entries are plain functions, so that each
/// protocol has a slot with a function of its own.
const MAX_PROTOCOLS: usize = 32;

/// Registered protocols: entry and Python class, by slot.
static SLOTS: Mutex<Vec<Slot>> = Mutex::new(Vec::new());

struct Slot {
    entry: &'static ProtocolEntry,
    class: Py<PyAny>,
    header_bytes: usize,
}

/// Constructor of the machines of a slot.
fn build<const SLOT: usize>(
    role: Role,
    context: &BuildContext,
    config: &Config,
) -> Result<Box<dyn Machine>, ConfigError> {
    let machine = Python::attach(|py| {
        let class = {
            let slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
            slots[SLOT].class.clone_ref(py)
        };
        let settings = PyDict::new(py);
        for (name, setting) in config.iter() {
            set(&settings, name, setting, context)?;
        }
        let members: Vec<u32> = context.members.iter().map(|member| member.0).collect();
        let seed = context.seeds.stream("python").bits();
        let role_name = if role == Role::Sender { "sender" } else { "receiver" };
        let arguments =
            (role_name, context.node.0, context.sender.0, members, settings, seed, context.max_payload);
        let object = class.bind(py).call_method1("build", arguments)?;
        let recorded = object.getattr("events")?.cast_into::<PyList>()?;
        let place = (context.sender, context.group);
        Ok::<_, PyErr>(PyMachine::new(object.unbind(), recorded.unbind(), role, place, context.max_payload))
    });
    match machine {
        Ok(machine) => Ok(Box::new(machine)),
        Err(error) => {
            let what = error.to_string();
            note_failure(error);
            Err(ConfigError::Conflict(what))
        }
    }
}

fn set(settings: &Bound<'_, PyDict>, name: &str, setting: Setting, context: &BuildContext) -> PyResult<()> {
    match setting {
        Setting::Count(count) => settings.set_item(name, count),
        Setting::Size(size) => settings.set_item(name, size.0),
        Setting::Rate(rate) => settings.set_item(name, rate.map(|rate| rate.bps())),
        Setting::Span(span) => {
            settings.set_item(name, span.at(context.bit_rate).as_nanos().min(u64::MAX.into()) as u64)
        }
        Setting::Probability(p) => settings.set_item(name, p.value()),
        Setting::Switch(on) => settings.set_item(name, on),
        Setting::Choice(word) => settings.set_item(name, word),
    }
}

fn header_bytes<const SLOT: usize>(_: &Config) -> HeaderBytes {
    let slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    HeaderBytes::all(slots[SLOT].header_bytes)
}

/// Constructor and header size of each slot.
type Functions = (carillon_core::Build, fn(&Config) -> HeaderBytes);

macro_rules! functions {
    ($($slot:literal)*) => { [$((build::<$slot> as carillon_core::Build, header_bytes::<$slot> as _)),*] };
}

const FUNCTIONS: [Functions; MAX_PROTOCOLS] = functions!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
);

/// Description of a protocol class.
#[derive(FromPyObject)]
pub struct Description {
    name: String,
    summary: String,
    guarantee: String,
    header_bytes: usize,
    /// Name, kind and default of each parameter.
    parameter_list: Vec<(String, String, String, Vec<String>)>,
}

/// Registers a protocol class under its name. A class registered before under this name is replaced.
#[pyfunction]
pub fn register(class: Py<PyAny>, description: Description) -> PyResult<()> {
    if carillon_proto::find(&description.name).is_some() {
        return Err(PyValueError::new_err(format!(
            "the registry has a protocol {:?} already",
            description.name
        )));
    }
    let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    let slot = slots.iter().position(|slot| slot.entry.name == description.name).unwrap_or(slots.len());
    let Some(&(build, header_bytes)) = FUNCTIONS.get(slot) else {
        return Err(PyValueError::new_err(format!(
            "{MAX_PROTOCOLS} protocols are registered, which is the maximum"
        )));
    };
    let is_acknowledged = match description.guarantee.as_str() {
        "acknowledged" => true,
        "best-effort" => false,
        other => {
            let what = format!("guarantee {other:?}: give \"acknowledged\" or \"best-effort\"");
            return Err(PyValueError::new_err(what));
        }
    };
    let parameters = description.parameter_list.iter().map(parameter).collect::<PyResult<Vec<_>>>()?;
    // Entries live as long as the process: plans and worlds refer to them.
    let entry: &'static ProtocolEntry = Box::leak(Box::new(ProtocolEntry {
        name: word(&description.name)?,
        about: About {
            family: "written in Python",
            summary: word(&description.summary)?,
            reference: "Python",
        },
        roles: &[Role::Sender, Role::Receiver],
        delivery: DeliveryProperties {
            confirmed: is_acknowledged,
            repairs: is_acknowledged,
            ..ProtocolEntry::PLAIN.delivery
        },
        packets: PacketProperties { header_bytes, ..ProtocolEntry::PLAIN.packets },
        parameters: Box::leak(parameters.into_boxed_slice()),
        build,
        ..ProtocolEntry::PLAIN
    }));
    let new = Slot { entry, class, header_bytes: description.header_bytes };
    match slots.get_mut(slot) {
        Some(old) => *old = new,
        None => slots.push(new),
    }
    Ok(())
}

fn parameter((name, kind, default, words): &(String, String, String, Vec<String>)) -> PyResult<Parameter> {
    let words = || words.iter().map(|text| word(text)).collect::<PyResult<Vec<_>>>();
    let kind = match kind.as_str() {
        "count" => Kind::Count { min: 0, max: u64::MAX },
        "span" => Kind::Span,
        "probability" => Kind::Probability,
        "switch" => Kind::Switch,
        "choice" => Kind::Choice(Box::leak(words()?.into_boxed_slice())),
        other => return Err(PyValueError::new_err(format!("no kind of parameter {other:?}"))),
    };
    let parameter = Parameter { former: None, name: word(name)?, kind, default: word(default)?, doc: "" };
    parameter.parse(default).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(parameter)
}

/// Returns the protocols of the registry and those from Python.
pub fn entries() -> &'static [&'static ProtocolEntry] {
    static KNOWN: Mutex<&'static [&'static ProtocolEntry]> = Mutex::new(carillon_proto::REGISTRY);
    let slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let own = &known[carillon_proto::REGISTRY.len()..];
    let is_current = own.len() == slots.len()
        && own.iter().zip(&*slots).all(|(entry, slot)| std::ptr::eq(*entry, slot.entry));
    if !is_current {
        // Scenarios refer to the list, so an old one stays.
        let all = carillon_proto::REGISTRY.iter().copied().chain(slots.iter().map(|slot| slot.entry));
        *known = Box::leak(all.collect());
    }
    *known
}

/// Runs the tests of a protocol's guarantee with seeds 1 to `runs`. Raises `AssertionError` for the first violation.
#[pyfunction]
pub fn check_protocol(py: Python<'_>, name: &str, runs: u64) -> PyResult<()> {
    let entry = entries().iter().copied().find(|entry| entry.name == name);
    let entry = entry.ok_or_else(|| PyKeyError::new_err(format!("no protocol {name:?} is registered")))?;
    for seed in 1..=runs {
        py.check_signals()?;
        take_failure();
        // The testkit panics where a machine breaks its contract with the host.
        let outcome =
            py.detach(|| catch_unwind(AssertUnwindSafe(|| conformance::run_of_each_test(entry, seed))));
        if let Some(error) = take_failure() {
            return Err(error);
        }
        let failure = match outcome {
            Ok(Ok(())) => continue,
            Ok(Err(failure)) => failure,
            Err(panic) => panic_text(&*panic),
        };
        return Err(PyAssertionError::new_err(format!("{name}, seed {seed}: {failure}")));
    }
    Ok(())
}

/// Text of a panic.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a machine broke its contract")
        .to_owned()
}
