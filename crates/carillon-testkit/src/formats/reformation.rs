//! Fuzzed packets of the agreement on views.

use carillon_wire::reformation::{Ballot, Packet, Ranks};

use crate::fuzz::Input;

/// Makes packets of the agreement with fuzzed fields.
pub(super) fn fuzzed<'a>(form: u8, input: &mut Input<'_>, state: &'a mut Vec<u8>) -> Packet<'a> {
    let ballot =
        |input: &mut Input<'_>| Ballot { number: u32::from(input.byte() % 8), coordinator: input.byte() % 6 };
    let ranks = |input: &mut Input<'_>| {
        let bits = input.byte();
        (0..8).filter(|rank| bits >> rank & 1 == 1).collect::<Ranks>()
    };
    let (first, accepted, length) = (ballot(input), u32::from(input.byte() % 4), u64::from(input.byte()));
    match form & 7 {
        0 => Packet::Invite { ballot: first },
        1 => {
            let members = ranks(input);
            Packet::Vote { ballot: first, accepted, length, members, joiners: ranks(input).and(&members) }
        }
        2 => Packet::Refuse { ballot: first, promised: ballot(input) },
        3 => {
            let (members, joiners) = (ranks(input), ranks(input));
            let number = u64::from(input.byte());
            let numbers = usize::from(input.byte() % 8);
            state.extend(std::iter::repeat_n(number.to_be_bytes(), numbers).flatten());
            let joiners = joiners.and(&members);
            Packet::Start { ballot: first, base: accepted, length, members, joiners, state }
        }
        4 => Packet::Ready { ballot: first },
        5 => Packet::Active { ballot: first },
        6 => Packet::Installed { ballot: first },
        _ => Packet::Join { lost: accepted & 1 == 1 },
    }
}
