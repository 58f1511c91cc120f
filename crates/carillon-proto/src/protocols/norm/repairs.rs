//! Repairs that receivers have requested, by block.

use std::collections::{BTreeMap, BTreeSet};

use carillon_wire::norm::{Form, Item, Position, Request, Requests};

use super::config::Shape;
use super::identity::{expand_block, truncate_block};

/// Requested repairs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wants(BTreeMap<u64, Want>);

/// Requested repairs of one block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Want {
    /// Number of symbols that the receiver that misses most of them requests.
    pub erasures: u16,
    /// Symbols that receivers named.
    pub symbols: BTreeSet<u8>,
    /// True if the own receiver takes any symbols.
    is_parity: bool,
}

impl Wants {
    /// Requests of a packet, at most `most` blocks of them. `expected` is a block near which the blocks are.
    pub fn read(requests: Requests<'_>, shape: Shape, expected: u64, most: usize) -> Wants {
        let mut wants = Wants::default();
        for request in requests.iter() {
            let mut items = request.items();
            while let Some(first) = items.next() {
                let last = match request.form {
                    Form::Ranges => items.next().unwrap_or(first),
                    Form::Items | Form::Erasures => first,
                };
                wants.add(request, (first, last), shape, expected, most);
            }
        }
        wants
    }

    /// Adds the symbols from `first` to `last`.
    fn add(&mut self, request: Request<'_>, range: (Item, Item), shape: Shape, expected: u64, most: usize) {
        let (Position::Rs8 { block: first, symbol: from }, Position::Rs8 { block: last, symbol: to }) =
            (range.0.position, range.1.position)
        else {
            return;
        };
        let (first, last) = (expand_block(first, expected), expand_block(last, expected));
        for block in first..=last {
            if self.0.len() >= most && !self.0.contains_key(&block) {
                return;
            }
            let want = self.0.entry(block).or_default();
            if request.flags & Request::BLOCK != 0 {
                want.symbols.extend((0..shape.block).map(|symbol| symbol as u8));
            } else if request.flags & Request::SEGMENT != 0 && request.form == Form::Erasures {
                want.erasures = want.erasures.max(from.into());
            } else if request.flags & Request::SEGMENT != 0 {
                let start = if block == first { from } else { 0 };
                let end = if block == last { to } else { u8::MAX };
                // More symbols than sources are not needed, and more than the code has do not exist.
                let codes = (shape.block + u64::from(shape.parity)).saturating_sub(1) as u8;
                want.symbols.extend((start..=end.min(codes)).take(shape.block as usize));
            }
            want.erasures = want.erasures.max(want.symbols.len() as u16).min(shape.block as u16);
        }
    }

    /// Adds the requests of another receiver: each block needs what the receiver that misses most needs.
    pub fn merge(&mut self, other: Wants) {
        for (block, want) in other.0 {
            let own = self.0.entry(block).or_default();
            own.erasures = own.erasures.max(want.erasures);
            own.symbols.extend(want.symbols);
        }
    }

    /// Drops the blocks that do not pass.
    pub fn retain(&mut self, mut passes: impl FnMut(u64) -> bool) {
        self.0.retain(|&block, _| passes(block));
    }

    /// First block, with its repairs.
    pub fn first_mut(&mut self) -> Option<(u64, &mut Want)> {
        self.0.iter_mut().next().map(|(&block, want)| (block, want))
    }

    /// Removes a block.
    pub fn remove(&mut self, block: u64) {
        self.0.remove(&block);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of requested symbols.
    pub fn symbols(&self) -> u64 {
        self.0.values().map(|want| u64::from(want.erasures)).sum()
    }

    pub fn blocks(&self) -> impl Iterator<Item = u64> {
        self.0.keys().copied()
    }

    /// Returns true if `other` requests as much of each block: as many symbols, since any parity repairs any loss, or
    /// the same source symbols.
    pub fn is_covered_by(&self, other: &Wants) -> bool {
        self.0.iter().all(|(block, want)| {
            other.0.get(block).is_some_and(|other| {
                want.symbols.is_subset(&other.symbols) || want.is_parity && other.erasures >= want.erasures
            })
        })
    }

    /// Adds needs of the own receiver; with `any`, other symbols of the block serve as well.
    pub fn insert(&mut self, block: u64, symbols: impl IntoIterator<Item = u8>, any: bool) {
        let want = self.0.entry(block).or_default();
        want.is_parity = any;
        want.symbols.extend(symbols);
        want.erasures = want.erasures.max(want.symbols.len() as u16);
    }

    /// Writes the requests, lowest block first, in at most `most` bytes. Returns them and whether all had room.
    pub fn write(&self, object: u16, most: usize) -> (Vec<u8>, bool) {
        let mut bytes = Vec::new();
        for (&block, want) in &self.0 {
            let item = |symbol| {
                let position = Position::Rs8 { block: truncate_block(block), symbol };
                Item { object, position }
            };
            // Consecutive symbols are one range, which takes as much as two items.
            let mut runs: Vec<(u8, u8)> = Vec::new();
            for &symbol in &want.symbols {
                match runs.last_mut() {
                    Some((_, last)) if *last + 1 == symbol => *last = symbol,
                    _ => runs.push((symbol, symbol)),
                }
            }
            let length = runs.iter().map(|&(first, last)| run_len(first, last)).sum::<usize>();
            if bytes.len() + length > most && !bytes.is_empty() {
                return (bytes, false);
            }
            for (first, last) in runs {
                match last - first {
                    0 => Requests::push(&mut bytes, Form::Items, Request::SEGMENT, [item(first)]),
                    _ => {
                        let range = [item(first), item(last)];
                        Requests::push(&mut bytes, Form::Ranges, Request::SEGMENT, range);
                    }
                }
            }
        }
        (bytes, true)
    }
}

/// Bytes of the request for a run of symbols.
fn run_len(first: u8, last: u8) -> usize {
    Request::HEADER_LEN + if first == last { Item::RS_LEN } else { 2 * Item::RS_LEN }
}
