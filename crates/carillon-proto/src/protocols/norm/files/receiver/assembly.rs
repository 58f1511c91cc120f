//! Assembly of one object from its symbols.

use std::collections::BTreeMap;

use carillon_core::DropReason;
use carillon_wire::norm::{Object, Transmission};

use super::super::code::Code;
use super::super::geometry::Geometry;
use super::super::needs::{MAX_BLOCKS, Needs};
use crate::blocks::Symbol;

/// Object of which symbols arrive.
#[derive(Debug)]
pub(super) struct Assembly {
    geometry: Geometry,
    /// Information of the object; `None` while it is missing.
    information: Option<Vec<u8>>,
    blocks: BTreeMap<u64, Block>,
    /// Number of whole blocks.
    whole: u64,
    memory: usize,
}

/// Symbols of one block.
#[derive(Debug)]
enum Block {
    Part(BTreeMap<u16, Vec<u8>>),
    Whole(Vec<u8>),
}

impl Assembly {
    /// Assembly of an object with these sizes; `None` if they are not valid.
    pub fn new(fec_id: u8, transmission: Transmission, object: Object) -> Option<Assembly> {
        let has_information = object.flags & Object::INFO != 0;
        Some(Assembly {
            geometry: Geometry::of(fec_id, transmission)?,
            information: (!has_information).then(Vec::new),
            blocks: BTreeMap::new(),
            whole: 0,
            memory: OBJECT_OVERHEAD,
        })
    }

    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Code of the blocks.
    pub fn code(&self) -> Code {
        self.geometry.shape.code
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        self.geometry.blocks()
    }

    pub fn is_whole(&self) -> bool {
        self.whole == self.geometry.blocks() && self.information.is_some()
    }

    /// Stores the information.
    pub fn inform(&mut self, information: &[u8]) {
        if self.information.is_none() {
            self.memory += information.len();
            self.information = Some(information.to_vec());
        }
    }

    /// Stores a symbol, and computes the missing ones if the block has enough.
    pub fn add(&mut self, block: u64, number: u16, symbol: &[u8]) -> Result<(), DropReason> {
        let (geometry, sources) = (self.geometry, self.geometry.sources(block));
        let segment = usize::from(geometry.segment);
        let length = geometry.bytes(block).len();
        let is_last = number + 1 == sources;
        let expected = match number {
            number if number >= geometry.symbols(block) => return Err(DropReason::Malformed),
            // The last symbol of the object may be shorter.
            _ if is_last && block + 1 == geometry.blocks() => length - segment * usize::from(sources - 1),
            _ => segment,
        };
        if symbol.len() < expected || symbol.len() > segment {
            return Err(DropReason::Malformed);
        }
        let part = self.blocks.entry(block).or_insert_with(|| Block::Part(BTreeMap::new()));
        let Block::Part(symbols) = part else { return Err(DropReason::Redundant) };
        if symbols.insert(number, symbol.to_vec()).is_some() {
            return Err(DropReason::Duplicate);
        }
        self.memory += symbol.len() + SYMBOL_OVERHEAD;
        if symbols.len() < sources.into() {
            return Ok(());
        }
        let known: Vec<Symbol<'_>> = symbols.iter().map(|(&number, bytes)| (number, &bytes[..])).collect();
        let mut whole = Vec::with_capacity(usize::from(sources) * segment);
        let missing: Vec<u16> = (0..sources).filter(|number| !symbols.contains_key(number)).collect();
        let mut restored = geometry.restore(block, &known, &missing).into_iter();
        for number in 0..sources {
            match symbols.get(&number) {
                Some(symbol) => whole.extend_from_slice(symbol),
                None => whole.extend(restored.next().unwrap_or_default()),
            }
        }
        whole.truncate(length);
        self.memory -= symbols.values().map(|symbol| symbol.len() + SYMBOL_OVERHEAD).sum::<usize>();
        self.memory += whole.len() + SYMBOL_OVERHEAD;
        *part = Block::Whole(whole);
        self.whole += 1;
        Ok(())
    }

    /// Adds what is missing in blocks before `end` to the requests.
    pub fn needs(&self, object: u64, end: u64, needs: &mut Needs) {
        if self.information.is_none() {
            needs.infos.insert(object);
        }
        for block in 0..end.min(self.blocks()) {
            if needs.blocks.len() >= MAX_BLOCKS {
                return;
            }
            let sources = self.geometry.sources(block);
            let symbols = match self.blocks.get(&block) {
                Some(Block::Whole(_)) => continue,
                Some(Block::Part(symbols)) => symbols,
                None => {
                    needs.blocks.entry((object, block)).or_default().whole = true;
                    continue;
                }
            };
            let missing = usize::from(sources) - symbols.len();
            // Parity first, as the sender may not have sent it, and then the highest source symbols.
            let candidates = (sources..self.geometry.symbols(block)).chain((0..sources).rev());
            let named = candidates.filter(|number| !symbols.contains_key(number)).take(missing);
            let need = needs.blocks.entry((object, block)).or_default();
            need.symbols = named.collect();
            need.erasures = missing as u16;
        }
    }

    /// Information and contents of a whole object.
    pub fn into_content(self) -> (Vec<u8>, Vec<u8>) {
        let mut content = Vec::with_capacity(self.geometry.length as usize);
        for block in self.blocks.into_values() {
            if let Block::Whole(bytes) = block {
                content.extend(bytes);
            }
        }
        (self.information.unwrap_or_default(), content)
    }
}

/// Bytes by which an object is counted, besides its symbols.
const OBJECT_OVERHEAD: usize = 256;
/// Bytes by which a symbol is counted, besides its contents.
pub(super) const SYMBOL_OVERHEAD: usize = 128;
