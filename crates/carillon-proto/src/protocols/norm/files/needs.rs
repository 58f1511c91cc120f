//! Repairs that receivers request, by object and block.

use std::collections::{BTreeMap, BTreeSet};

use carillon_core::expand;
use carillon_wire::norm::{Form, Item, Request, Requests};

use super::code::Code;

/// Requested repairs.
#[derive(Clone, Debug, Default)]
pub(super) struct Needs {
    /// Objects of which the information is requested.
    pub infos: BTreeSet<u64>,
    /// Objects that are requested as a whole.
    pub objects: BTreeSet<u64>,
    /// Requested symbols, by object and block.
    pub blocks: BTreeMap<(u64, u64), Need>,
}

/// Requested repairs of one block.
#[derive(Clone, Debug, Default)]
pub(super) struct Need {
    /// True if the whole block is requested.
    pub whole: bool,
    /// Number of symbols that the receiver that misses most of them requests.
    pub erasures: u16,
    /// Symbols that receivers named.
    pub symbols: BTreeSet<u16>,
}

impl Needs {
    /// Requests of a packet, for at most [`MAX_BLOCKS`] blocks and objects each, by the numbers of this code.
    /// `expected` is an object near which all are.
    pub fn read(requests: Requests<'_>, expected: u64, code: Code) -> Needs {
        let mut needs = Needs::default();
        let mut symbols = MAX_SYMBOLS;
        for request in requests.iter() {
            let mut items = request.items();
            while let Some(first) = items.next() {
                let last = match request.form {
                    Form::Ranges => items.next().unwrap_or(first),
                    Form::Items | Form::Erasures => first,
                };
                needs.add(request, (first, last), expected, code, &mut symbols);
            }
        }
        needs
    }

    /// Adds the requests from the first to the last item, with at most `symbols_left` symbols.
    fn add(
        &mut self,
        request: Request<'_>,
        (first, last): (Item, Item),
        expected: u64,
        code: Code,
        symbols_left: &mut usize,
    ) {
        let (Some((from, low)), Some((to, high))) = (code.place(first.position), code.place(last.position))
        else {
            return;
        };
        let highest = code.field().max_symbols() as u16;
        let (first, last) = (expand_object(first.object, expected), expand_object(last.object, expected));
        let room = |objects: &BTreeSet<u64>| (first..=last).take(MAX_BLOCKS.saturating_sub(objects.len()));
        if request.flags & Request::INFO != 0 {
            self.infos.extend(room(&self.infos));
        }
        if request.flags & Request::OBJECT != 0 {
            self.objects.extend(room(&self.objects));
            return;
        }
        if request.flags & (Request::BLOCK | Request::SEGMENT) == 0 || first != last {
            return;
        }
        for block in from..=to {
            if self.blocks.len() >= MAX_BLOCKS || *symbols_left == 0 {
                return;
            }
            let need = self.blocks.entry((first, block)).or_default();
            if request.flags & Request::BLOCK != 0 {
                need.whole = true;
            } else if request.form == Form::Erasures {
                need.erasures = need.erasures.max(low);
            } else {
                let start = if block == from { low } else { 0 };
                let end = if block == to { high.min(highest) } else { highest };
                need.symbols.extend((start..=end).take(*symbols_left));
                *symbols_left -= usize::from((end + 1).saturating_sub(start)).min(*symbols_left);
                need.erasures = need.erasures.max(need.symbols.len() as u16);
            }
        }
    }

    /// Adds the requests of another receiver: each block needs what the receiver that misses most needs.
    pub fn merge(&mut self, other: Needs) {
        self.infos.extend(other.infos);
        self.objects.extend(other.objects);
        for (place, need) in other.blocks {
            let own = self.blocks.entry(place).or_default();
            own.whole |= need.whole;
            own.erasures = own.erasures.max(need.erasures);
            own.symbols.extend(need.symbols);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.infos.is_empty() && self.objects.is_empty() && self.blocks.is_empty()
    }

    /// First place with a request.
    pub fn first(&self) -> Option<(u64, u64)> {
        let objects = self.infos.first().into_iter().chain(self.objects.first()).map(|&object| (object, 0));
        objects.chain(self.blocks.first_key_value().map(|(&place, _)| place)).min()
    }

    /// Returns true if `other` requests as much of everything. Any symbols serve where a block has parity.
    pub fn is_covered_by(&self, other: &Needs) -> bool {
        self.objects.is_subset(&other.objects)
            && self.infos.iter().all(|info| other.infos.contains(info) || other.objects.contains(info))
            && self.blocks.iter().all(|(place, need)| {
                let other_need = other.blocks.get(place);
                other.objects.contains(&place.0)
                    || other_need
                        .is_some_and(|other| other.whole || !need.whole && other.erasures >= need.erasures)
            })
    }

    /// Writes the requests in at most `most` bytes, lowest place first, with the numbers of this code. Returns them and
    /// whether all had room.
    pub fn write(&self, most: usize, code: Code) -> (Vec<u8>, bool) {
        let mut bytes = Vec::new();
        let item = |object: u64, place| Item { object: object as u16, position: code.position(place) };
        let single = |flags, object: u64, place, bytes: &mut Vec<u8>| {
            let room = bytes.len() + Request::HEADER_LEN + Item::RS_LEN <= most;
            if room {
                Requests::push(bytes, Form::Items, flags, [item(object, place)]);
            }
            room
        };
        for &object in self.infos.difference(&self.objects) {
            if !single(Request::INFO, object, (0, 0), &mut bytes) {
                return (bytes, false);
            }
        }
        for &object in &self.objects {
            if !single(Request::OBJECT | Request::INFO, object, (0, 0), &mut bytes) {
                return (bytes, false);
            }
        }
        for (&(object, block), need) in &self.blocks {
            if need.whole {
                if !single(Request::BLOCK, object, (block, 0), &mut bytes) {
                    return (bytes, false);
                }
                continue;
            }
            // Only other programs count what they miss.
            if need.symbols.is_empty() && bytes.len() + Request::HEADER_LEN + Item::RS_LEN <= most {
                let counted = item(object, (block, need.erasures));
                Requests::push(&mut bytes, Form::Erasures, Request::SEGMENT, [counted]);
            }
            for (first, last) in runs(&need.symbols) {
                let ends = if first == last { 1 } else { 2 };
                if bytes.len() + Request::HEADER_LEN + ends * Item::RS_LEN > most {
                    return (bytes, false);
                }
                let items = [item(object, (block, first)), item(object, (block, last))];
                let form = if first == last { Form::Items } else { Form::Ranges };
                Requests::push(&mut bytes, form, Request::SEGMENT, items.into_iter().take(ends));
            }
        }
        (bytes, true)
    }
}

/// Runs of consecutive symbols.
fn runs(symbols: &BTreeSet<u16>) -> Vec<(u16, u16)> {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for &symbol in symbols {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == symbol => *last = symbol,
            _ => runs.push((symbol, symbol)),
        }
    }
    runs
}

/// Full number of an object from the 16 bits of its packets, nearest to the expected one.
pub(super) fn expand_object(truncated: u16, expected: u64) -> u64 {
    expand(truncated.into(), 1 << 16, expected)
}

/// Maximum number of blocks, and of objects, that the requests of a packet name.
pub(super) const MAX_BLOCKS: usize = 1024;
/// Maximum number of symbols that the requests of a packet name.
const MAX_SYMBOLS: usize = 1 << 18;
