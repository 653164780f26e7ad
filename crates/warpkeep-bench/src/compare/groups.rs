//! Which contestants are loaded at the same time: as many as memory allows, ourselves always.

use super::contestants::Entrant;

/// The memory that may be used at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes of memory.
    pub(crate) memory: u64,
    /// Bytes in the image's directory.
    pub(crate) image: u64,
}

/// Places of entrants that are loaded together; the first entrant is in every group.
pub(crate) fn groups(entrants: &[Entrant], room: Room) -> Vec<Vec<usize>> {
    let Some(anchor) = entrants.first() else { return Vec::new() };
    let fresh = || (vec![0], anchor.memory, anchor.image);
    let mut groups = Vec::new();
    let (mut group, mut memory, mut image) = fresh();
    for (place, entrant) in entrants.iter().enumerate().skip(1) {
        let fits = memory + entrant.memory <= room.memory && image + entrant.image <= room.image;
        if !fits && group.len() > 1 {
            groups.push(std::mem::replace(&mut group, vec![0]));
            (_, memory, image) = fresh();
        }
        group.push(place);
        memory += entrant.memory;
        image += entrant.image;
    }
    groups.push(group);
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entrant(memory: u64, image: u64) -> Entrant {
        Entrant { name: "x", memory, image, open: |_| unreachable!("it is never opened") }
    }

    #[test]
    fn as_many_at_a_time_as_there_is_room_for() {
        let entrants =
            [entrant(3, 3), entrant(0, 0), entrant(3, 3), entrant(4, 0), entrant(4, 0), entrant(9, 9)];
        let room = |memory, image| Room { memory, image };
        assert_eq!(groups(&entrants, room(100, 100)), [vec![0, 1, 2, 3, 4, 5]]);
        assert_eq!(groups(&entrants, room(10, 100)), [vec![0, 1, 2, 3], vec![0, 4], vec![0, 5]]);
        assert_eq!(groups(&entrants, room(100, 6)), [vec![0, 1, 2, 3, 4], vec![0, 5]]);
        assert_eq!(groups(&entrants[..1], room(1, 1)), [vec![0]]);
        // One that never fits is tried alone with us.
        assert_eq!(groups(&entrants[4..], room(1, 1)), [vec![0, 1]]);
    }
}
