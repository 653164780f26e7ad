//! Records laid out in pieces: the same bytes as copied batches, and refused in the same cases.

use warpkeep_core::{Change, ChangeKind, Durability, Lsn};
use warpkeep_log::{ChangeBatch, ChangeForm, LaidRecord, Log, LogError, PieceLen};

use crate::history::{create, recover};
use crate::mem_disk::{Dice, MemDisk, Plan};

const KEY: usize = 8;

fn form(kind: ChangeKind) -> ChangeForm {
    ChangeForm { table: 3, kind }
}

/// Changes of one form, with others behind them.
struct Changes {
    form: ChangeForm,
    alike: Vec<(u64, Vec<u8>, Vec<u8>)>,
    beside: ChangeBatch,
}

impl Changes {
    fn drawn(dice: &mut Dice) -> Changes {
        let kind = if dice.roll().is_multiple_of(4) { ChangeKind::Delete } else { ChangeKind::Put };
        let len = if kind == ChangeKind::Delete { 0 } else { (dice.roll() % 50) as usize };
        // Keys of one length, or of any.
        let any = dice.coin();
        let key = |dice: &mut Dice| {
            let len = if any { (dice.roll() % 30) as usize } else { KEY };
            dice.roll().to_le_bytes().into_iter().cycle().take(len).collect()
        };
        let alike =
            (0..dice.roll() % 40).map(|_| (dice.roll(), key(dice), vec![dice.roll() as u8; len])).collect();
        let mut beside = ChangeBatch::new();
        for _ in 0..dice.roll() % 3 {
            let change = Change {
                table: 4,
                kind: ChangeKind::Put,
                version: dice.roll(),
                key: b"beside",
                value: b"it",
            };
            beside.push(&change).unwrap();
        }
        Changes { form: form(kind), alike, beside }
    }

    fn batch(&self) -> ChangeBatch {
        let mut batch = ChangeBatch::new();
        let ChangeForm { table, kind } = self.form;
        for (version, key, value) in &self.alike {
            batch.push(&Change { table, kind, version: *version, key, value }).unwrap();
        }
        (&self.beside).into_iter().for_each(|change| batch.push(&change).unwrap());
        batch
    }

    /// Laid out in pieces of `at_once` changes, some of them empty.
    fn laid(&self, log: &Log, at_once: usize) -> LaidRecord {
        let len = |rows: &[(u64, Vec<u8>, Vec<u8>)]| {
            let mut len = PieceLen::default();
            rows.iter().for_each(|(_, key, value)| len.add(key.len(), value.len()));
            assert_eq!(len.changes(), rows.len());
            len
        };
        let mut pieces: Vec<PieceLen> = self.alike.chunks(at_once).map(len).collect();
        pieces.insert(pieces.len() / 2, PieceLen::default());
        let mut record = log.lay(self.form, &pieces, &self.beside).unwrap();
        let mut rows = self.alike.iter();
        for mut piece in record.pieces() {
            while piece.has_room() {
                let (version, key, value) = rows.next().unwrap();
                piece.push(*version, key, value);
            }
            piece.finish();
        }
        record
    }
}

#[test]
fn a_laid_record_is_the_same_bytes_as_a_batch() {
    let disks = [MemDisk::default(), MemDisk::default()];
    let logs = [create(&disks[0]), create(&disks[1])];
    let mut dice = Dice::new(4);
    for round in 0..60 {
        let changes = Changes::drawn(&mut dice);
        let durability = if dice.coin() { Durability::Power } else { Durability::Process };
        let copied = logs[0].append(&changes.batch(), durability, |_| ()).unwrap();
        let record = changes.laid(&logs[1], 1 + round % 7);
        assert_eq!(record.len(), changes.batch().len());
        let laid = match durability {
            Durability::Power => logs[1].append_laid(record, durability, |_| ()).unwrap(),
            Durability::Process => {
                let promise = logs[1].promise_bytes(record.bytes(), durability).unwrap();
                logs[1].append_laid_promised(promise, record, durability).unwrap()
            }
        };
        assert_eq!(copied, laid);
        logs.iter().for_each(|log| log.flush().unwrap());
    }
    drop(logs);
    for name in disks[0].names() {
        assert!(disks[0].bytes(&name) == disks[1].bytes(&name), "{name}");
    }
    assert_eq!(recover(&disks[1]).unwrap().report().records, 60);
}

/// Laid-out records among queued ones: each frame describes its own records.
#[test]
fn laid_records_stand_among_others() {
    let disk = MemDisk::default();
    let log = create(&disk);
    let mut dice = Dice::new(6);
    let mut all = Vec::new();
    for round in 0..40 {
        let changes = Changes::drawn(&mut dice);
        let lsn = match round % 3 {
            0 => log.append_laid(changes.laid(&log, 5), Durability::Power, |_| ()),
            _ => log.append(&changes.batch(), Durability::Process, |_| ()),
        };
        all.push((lsn.unwrap(), changes.batch()));
        if round % 8 == 5 {
            log.flush().unwrap();
        }
    }
    log.flush().unwrap();
    drop(log);
    let recovery = recover(&disk).unwrap();
    for (lsn, batch) in all {
        let found = recovery.find(lsn).unwrap().expect("it was logged");
        assert!(found.changes().eq(batch.iter()), "{lsn}");
    }
}

#[test]
fn what_is_not_laid_out_is_refused() {
    let disk = MemDisk::default();
    let log = create(&disk);
    let piece = [PieceLen::of(2, KEY, 4)];
    let lay = || log.lay(form(ChangeKind::Put), &piece, &ChangeBatch::new()).unwrap();
    let append = |record| log.append_laid(record, Durability::Power, |_| ());
    let refused = |record| assert!(matches!(append(record), Err(LogError::BadChange { .. })));
    // An empty record; half of one; values that are longer or shorter; one change too many; not finished.
    refused(lay());
    for (pushes, value, finished) in [
        (1, &b"four"[..], true),
        (2, b"seven is more", true),
        (2, b"", true),
        (3, b"four", true),
        (2, b"four", false),
    ] {
        let mut record = lay();
        for mut piece in record.pieces() {
            (0..pushes).for_each(|version| piece.push(version, &[7; KEY], value));
            if finished {
                piece.finish();
            }
        }
        refused(record);
    }
    assert_eq!(log.last_lsn(), Lsn::ZERO);
    let mut record = log.lay(form(ChangeKind::Delete), &piece, &ChangeBatch::new()).unwrap();
    for mut piece in record.pieces() {
        (0..2).for_each(|version| piece.push(version, &[7; KEY], b"four"));
        piece.finish();
    }
    refused(record);
    let endless = [PieceLen::of(2, usize::MAX, 4)];
    assert!(log.lay(form(ChangeKind::Put), &endless, &ChangeBatch::new()).is_err());
    // The next record is accepted.
    let mut record = lay();
    for mut piece in record.pieces() {
        (0..2).for_each(|version| piece.push(version, &[7; KEY], b"four"));
        piece.finish();
    }
    append(record).unwrap();
    log.close().unwrap();
}

#[test]
fn a_log_that_was_given_up_says_why() {
    let disk = MemDisk::default();
    let log = create(&disk);
    let told = log.give_up("the image is full".to_owned()).to_string();
    assert!(told.contains("the image is full") && told.contains("open the store again"), "{told}");
    let refused = log.append(&ChangeBatch::new(), Durability::Process, |_| ());
    assert!(matches!(refused, Err(LogError::Poisoned { .. })));
    assert!(matches!(log.close(), Err(LogError::Poisoned { .. })));
    disk.plan(Plan::Nothing);
    recover(&disk).unwrap();
}
