//! The `format` files by which tracefs says where an event's fields lie.

/// Tells what is wrong with a description in tracefs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kernel's description of {what} cannot be understood: {reason}")]
pub struct LayoutError {
    /// Names the description.
    pub what: String,
    /// Says what is wrong with it.
    pub reason: String,
}

impl LayoutError {
    pub(crate) fn new(what: &str, reason: impl Into<String>) -> Self {
        Self { what: what.to_owned(), reason: reason.into() }
    }

    pub(crate) fn missing(what: &str, field: &str) -> Self {
        Self::new(what, format!("it has no field {field}"))
    }
}

/// A field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventField {
    /// Holds the field's name, without an array's brackets.
    pub name: String,
    /// Holds the place of its first byte in the event.
    pub offset: usize,
    /// Counts its bytes.
    pub size: usize,
    /// Is true of a signed number.
    pub signed: bool,
}

impl EventField {
    /// The field's bytes, if the event is long enough.
    #[must_use]
    pub fn bytes<'a>(&self, event: &'a [u8]) -> Option<&'a [u8]> {
        event.get(self.offset..self.offset.checked_add(self.size)?)
    }

    /// The field as an unsigned little-endian number, if the event is long enough.
    #[must_use]
    pub fn number(&self, event: &[u8]) -> Option<u64> {
        le(event, self.offset, self.size)
    }

    /// The field as a signed number if it is one.
    #[must_use]
    pub fn signed_number(&self, event: &[u8]) -> Option<i64> {
        let number = self.number(event)?;
        // Fields have any size up to 8 bytes. Shifted to the top and back, each has its own sign.
        let unused = 64 - 8 * self.size.min(8) as u32;
        Some(if self.signed && unused < 64 { (number << unused).cast_signed() >> unused } else { number.cast_signed() })
    }
}

/// An event's number and fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLayout {
    /// The event's name.
    pub name: String,
    /// Holds the number that [`common_type`](Self::field) has in such an event.
    pub id: u64,
    fields: Vec<EventField>,
}

impl EventLayout {
    /// Reads the text of an event's `format`.
    pub fn parse(text: &str) -> Result<Self, LayoutError> {
        let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let name = line("name:").ok_or_else(|| LayoutError::new("an event", "it has no line \"name:\""))?;
        let id = line("ID:").and_then(|id| id.parse().ok());
        let id = id.ok_or_else(|| LayoutError::new(name, "it has no line \"ID:\" with a number"))?;
        Ok(Self { name: name.to_owned(), id, fields: fields(name, text)? })
    }

    /// The field of this name, which must have one of these sizes in bytes (any, if none is given).
    pub fn field(&self, name: &str, sizes: &[usize]) -> Result<EventField, LayoutError> {
        let field = self.fields.iter().find(|field| field.name == name);
        let field = field.ok_or_else(|| LayoutError::missing(&self.name, name))?;
        // A field of another size would still decode, to wrong numbers.
        if !sizes.is_empty() && !sizes.contains(&field.size) {
            let reason = format!("its field {name} has {} bytes, expected one of {sizes:?}", field.size);
            return Err(LayoutError::new(&self.name, reason));
        }
        Ok(field.clone())
    }
}

/// The lines `field:TYPE NAME; offset:N; size:N; signed:N;`.
pub(crate) fn fields(what: &str, text: &str) -> Result<Vec<EventField>, LayoutError> {
    let mut fields = vec![];
    for line in text.lines().map(str::trim) {
        let Some(rest) = line.strip_prefix("field:") else { continue };
        let wrong = || LayoutError::new(what, format!("the line {line:?} is not a field with offset and size"));
        let mut parts = rest.split(';').map(str::trim);
        let declared = parts.next().ok_or_else(wrong)?;
        let (mut offset, mut size, mut signed) = (None, None, false);
        for part in parts {
            let Some((key, value)) = part.split_once(':') else { continue };
            match key {
                "offset" => offset = Some(value.parse().map_err(|_| wrong())?),
                "size" => size = Some(value.parse().map_err(|_| wrong())?),
                "signed" => signed = value == "1",
                _ => {}
            }
        }
        let name = declared.split_whitespace().next_back().ok_or_else(wrong)?;
        let name = name.split('[').next().unwrap_or(name).to_owned();
        let (Some(offset), Some(size)) = (offset, size) else { return Err(wrong()) };
        fields.push(EventField { name, offset, size, signed });
    }
    Ok(fields)
}

/// A little-endian number of up to 8 bytes, if it lies inside.
pub(crate) fn le(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    let mut word = [0; 8];
    word.get_mut(..size)?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name: block_rq_complete\nID: 2107\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:int error;\toffset:28;\tsize:4;\tsigned:1;\n\
        \tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n\
        \tfield:__data_loc char[] cmd;\toffset:44;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"%d field:x;\", 1\n";

    #[test]
    fn a_description_is_read() {
        let layout = EventLayout::parse(TEXT).unwrap();
        assert_eq!((&layout.name[..], layout.id), ("block_rq_complete", 2107));
        let error = layout.field("error", &[4]).unwrap();
        let mut event = vec![0; 48];
        event[28..32].copy_from_slice(&(-5_i32).to_le_bytes());
        event[34..36].copy_from_slice(b"WS");
        assert_eq!(error.signed_number(&event), Some(-5));
        assert_eq!(layout.field("sector", &[4, 8]).unwrap().number(&event), Some(0));
        assert_eq!(layout.field("rwbs", &[]).unwrap().bytes(&event).unwrap()[..3], *b"WS\0");
        assert_eq!(error.number(&event[..31]), None, "too short");
        assert_eq!(layout.field("cmd", &[4]).unwrap().offset, 44);
    }

    #[test]
    fn what_is_missing_is_named() {
        let layout = EventLayout::parse(TEXT).unwrap();
        assert_eq!(
            layout.field("dev", &[4]).unwrap_err().to_string(),
            "the kernel's description of block_rq_complete cannot be understood: it has no field dev"
        );
        assert!(layout.field("sector", &[2]).unwrap_err().to_string().contains("has 8 bytes"));
        assert!(EventLayout::parse("").is_err());
        assert!(EventLayout::parse("name: x\nID: y\n").is_err());
        assert!(EventLayout::parse("name: x\nID: 1\n\tfield:int a;\tsize:4;\n").is_err());
        assert!(EventLayout::parse("name: x\nID: 1\n\tfield:int a;\toffset:-4;\tsize:4;\n").is_err());
    }
}
