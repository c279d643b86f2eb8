//! A world in a few words: every field in as many bits as it may need, so that two worlds are packed alike
//! exactly if they are equal.

use semel::State;

use super::world::{
    BY_OPERATOR, Effect, End, Holder, Kept, NEVER, NOBODY, Operator, Said, Stage, Standing, Truth,
    World,
};

/// A packed world.
pub type Packed = [u64; 3];

/// Writes small numbers one after the other.
struct Bits {
    words: Packed,
    at: usize,
}

impl Bits {
    /// Writes a number below `1 << width`; a larger one would be another world, so it is none.
    fn put(&mut self, number: u8, width: usize) {
        assert!(u32::from(number) < 1 << width, "{number} needs more than {width} bits");
        let (word, shift) = (self.at / 64, self.at % 64);
        self.words[word] |= u64::from(number) << shift;
        if shift + width > 64 {
            self.words[word + 1] |= u64::from(number) >> (64 - shift);
        }
        self.at += width;
    }

    fn flag(&mut self, flag: bool) {
        self.put(u8::from(flag), 1);
    }

    /// Writes an instant from 7 ticks ago to 7 ahead, or never.
    fn instant(&mut self, at: i8) {
        self.put(if at == NEVER { 15 } else { u8::try_from(at + 7).unwrap() }, 4);
    }

    /// Writes whose it is.
    fn name(&mut self, name: u8) {
        self.put(
            match name {
                NOBODY => 7,
                BY_OPERATOR => 6,
                holder => holder,
            },
            3,
        );
    }

    fn maybe(&mut self, name: Option<u8>) {
        self.name(name.map_or(5, |name| name));
    }
}

/// Packs a world.
pub fn packed(world: &World) -> Packed {
    let World { holders, operator, record, floor, truth, since_write, lost, restarts, resolutions } =
        world;
    let mut bits = Bits { words: [0; 3], at: 0 };
    holders.iter().for_each(|at| holder(&mut bits, at));
    operates(&mut bits, operator);
    match record {
        None => bits.put(7, 3),
        Some(record) => kept(&mut bits, record),
    }
    history(&mut bits, truth);
    bits.put(*floor, 3);
    bits.put(u8::try_from(*since_write).unwrap(), 2);
    bits.put(*lost, 2);
    bits.put(*restarts, 2);
    bits.put(*resolutions, 2);
    bits.words
}

fn holder(bits: &mut Bits, holder: &Holder) {
    let Holder {
        stage,
        effect,
        end,
        content,
        sent,
        flying,
        late,
        echo,
        not_after,
        deadline,
        fence,
        incarnation,
        asks_first,
    } = *holder;
    bits.put(
        match stage {
            Stage::Abandoning => 0,
            Stage::Asking => 1,
            Stage::Ending => 2,
            Stage::Gone => 3,
            Stage::Holding => 4,
            Stage::Idle => 5,
            Stage::Over => 6,
            Stage::Renewed => 7,
            Stage::Started => 8,
        },
        4,
    );
    bits.put(
        match effect {
            Effect::None => 0,
            Effect::Landed => 1,
            Effect::Flying(left) => 2 + left,
        },
        2,
    );
    bits.put(
        match end {
            End::Clean => 0,
            End::Done => 1,
            End::Doubt => 2,
            End::Failed => 3,
            End::None => 4,
        },
        3,
    );
    bits.put(content, 1);
    bits.put(sent, 2);
    bits.flag(flying);
    bits.flag(late);
    bits.flag(echo);
    bits.instant(not_after);
    bits.put(u8::try_from(deadline).unwrap(), 2);
    bits.put(fence, 3);
    bits.put(incarnation, 3);
    bits.put(asks_first.map_or(3, |left| left), 2);
}

fn operates(bits: &mut Bits, operator: &Operator) {
    let Operator::Tells { id, token, fence, verdict } = *operator else {
        bits.put(0, 2);
        return;
    };
    bits.put(id, 2);
    bits.name(token);
    bits.put(fence, 3);
    bits.put(
        match verdict {
            Said::Done => 0,
            Said::NotDone => 1,
            Said::NotDoneAnew => 2,
            Said::Release => 3,
        },
        2,
    );
}

fn kept(bits: &mut Bits, record: &Kept) {
    let Kept {
        state,
        token,
        fence,
        content,
        renewed,
        length,
        taken_over,
        compare,
        incarnation,
        resolved_by,
        outcome,
        pointer,
        replay_until,
        remember_until,
    } = *record;
    bits.put(
        match state {
            State::Done => 0,
            State::Failed => 1,
            State::Open => 2,
            State::Running => 3,
            State::Unknown => 4,
        },
        3,
    );
    bits.name(token);
    bits.put(fence, 3);
    bits.put(content, 1);
    bits.instant(renewed);
    bits.put(length, 2);
    bits.flag(taken_over);
    bits.flag(compare);
    bits.put(incarnation, 3);
    bits.put(resolved_by, 2);
    bits.flag(outcome);
    bits.maybe(pointer);
    bits.instant(replay_until);
    bits.instant(remember_until);
}

fn history(bits: &mut Bits, truth: &Truth) {
    let Truth {
        standing,
        owner,
        fence,
        max_fence,
        content,
        incarnation,
        lease_left,
        busy_left,
        fell_back,
        told,
        kept,
        replay_until,
        remember_until,
        forced,
        resolved_by,
    } = *truth;
    bits.put(
        match standing {
            Standing::Doubted => 0,
            Standing::Ended => 1,
            Standing::Free { compare: false } => 2,
            Standing::Free { compare: true } => 3,
            Standing::Held => 4,
            Standing::Nothing => 5,
        },
        3,
    );
    bits.name(owner);
    bits.put(fence, 3);
    bits.put(max_fence, 3);
    bits.put(content, 1);
    bits.put(incarnation, 3);
    bits.put(u8::try_from(lease_left).unwrap(), 2);
    bits.put(u8::try_from(busy_left).unwrap(), 2);
    bits.flag(fell_back);
    bits.maybe(told);
    bits.maybe(kept);
    bits.instant(replay_until);
    bits.instant(remember_until);
    bits.flag(forced);
    bits.put(resolved_by, 2);
}
