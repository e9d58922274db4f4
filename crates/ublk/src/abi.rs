//! Encodes the driver's commands and decodes its structures, as Linux' `ublk_cmd.h` has them, in the byte order of this machine.

/// Encodes a command as ioctls are: direction, size of its structure, the driver's letter, number.
const fn command(direction: u32, bytes: u32, number: u32) -> u32 {
    direction << 30 | bytes << 16 | (b'u' as u32) << 8 | number
}

/// Encodes a command that the driver answers in its structure, for the control device.
const fn reads(number: u32) -> u32 {
    command(2, CONTROL_BYTES, number)
}

/// Encodes a command that the driver reads from and answers in its structure, for the control device.
const fn changes(number: u32) -> u32 {
    command(3, CONTROL_BYTES, number)
}

/// Encodes a command about requests.
const fn request(number: u32) -> u32 {
    command(3, REQUEST_BYTES, number)
}

/// Counts the bytes of `struct ublksrv_ctrl_cmd` and of `struct ublksrv_io_cmd`.
const CONTROL_BYTES: u32 = 32;
const REQUEST_BYTES: u32 = 16;

/// Tells what a device is; it names the device by its path, as devices of unprivileged users want.
pub const GET_DEV_INFO2: u32 = reads(0x12);
/// Adds a device.
pub const ADD_DEV: u32 = changes(0x04);
/// Removes a device whose queue is closed.
pub const DEL_DEV: u32 = changes(0x05);
/// Removes a device without waiting until it is closed.
pub const DEL_DEV_ASYNC: u32 = reads(0x14);
/// Has the block device appear.
pub const START_DEV: u32 = changes(0x06);
/// Has the block device disappear.
pub const STOP_DEV: u32 = changes(0x07);
/// Sets sizes and abilities.
pub const SET_PARAMS: u32 = changes(0x08);
/// Tells sizes and abilities.
pub const GET_PARAMS: u32 = reads(0x09);
/// Begins to serve a device whose server has ended.
pub const START_USER_RECOVERY: u32 = changes(0x10);
/// Has the block device go on.
pub const END_USER_RECOVERY: u32 = changes(0x11);
/// Tells what the driver can do.
pub const GET_FEATURES: u32 = reads(0x13);

/// Waits for the first request of a tag.
pub const FETCH_REQ: u32 = request(0x20);
/// Answers a tag's request and waits for the next.
pub const COMMIT_AND_FETCH_REQ: u32 = request(0x21);
/// Says where the bytes of a write are to be put.
pub const NEED_GET_DATA: u32 = request(0x22);

/// Says that a request has come.
pub const RESULT_OK: i32 = 0;
/// Says that a write has come, and that its bytes want a place.
pub const RESULT_NEED_GET_DATA: i32 = 1;

/// Has bytes of writes wait until they are asked for.
pub const F_NEED_GET_DATA: u64 = 1 << 2;
/// Lets another server go on with the device.
pub const F_USER_RECOVERY: u64 = 1 << 3;
/// Hands that one what was not answered, too.
pub const F_USER_RECOVERY_REISSUE: u64 = 1 << 4;
/// Lets users without privileges have the device.
pub const F_UNPRIVILEGED_DEV: u64 = 1 << 5;

/// Says that the device is served.
pub const STATE_LIVE: u16 = 1;
/// Says that the device waits for a server.
pub const STATE_QUIESCED: u16 = 2;

/// Reads.
pub const OP_READ: u8 = 0;
/// Writes.
pub const OP_WRITE: u8 = 1;
/// Makes durable what was answered.
pub const OP_FLUSH: u8 = 2;
/// Trims.
pub const OP_DISCARD: u8 = 3;
/// Writes zeros.
pub const OP_WRITE_ZEROES: u8 = 5;
/// Wants a write durable before it is answered.
pub const IO_FUA: u32 = 1 << 13;
/// Wants zeros to keep their room.
pub const IO_NOUNMAP: u32 = 1 << 15;

/// Limits the tags of a queue.
pub const MAX_DEPTH: u16 = 4096;
/// Counts the bytes of a request's description (`struct ublksrv_io_desc`).
pub const DESCRIPTOR_BYTES: usize = 24;

/// Cannot be written.
pub const ATTR_READ_ONLY: u32 = 1;
/// Has written bytes that are not durable before a flush.
pub const ATTR_VOLATILE_CACHE: u32 = 1 << 2;
/// Takes writes that are durable when they are answered.
pub const ATTR_FUA: u32 = 1 << 3;
/// Names the first two parts of the parameters.
const PARAMS_BASIC_AND_DISCARD: u32 = 3;

/// Writes fields one behind the other.
struct FieldWriter<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> FieldWriter<N> {
    const fn new() -> Self {
        Self { bytes: [0; N], at: 0 }
    }

    fn put(mut self, field: &[u8]) -> Self {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
        self
    }

    fn u16(self, value: u16) -> Self {
        self.put(&value.to_ne_bytes())
    }

    fn u32(self, value: u32) -> Self {
        self.put(&value.to_ne_bytes())
    }

    fn u64(self, value: u64) -> Self {
        self.put(&value.to_ne_bytes())
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|nth| bytes[at + nth]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|nth| bytes[at + nth]))
}

/// Encodes a command for the control device (`struct ublksrv_ctrl_cmd`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlCommand {
    /// Names the device.
    pub device: u32,
    /// Has the address and length of the bytes that go with it: the device's path and, behind it, a structure.
    pub buffer: (u64, u16),
    /// Is a number whose meaning depends on the command.
    pub data: u64,
    /// Counts the bytes of the path, with the zero at its end.
    pub path_len: u16,
}

impl ControlCommand {
    /// Returns its bytes, as they lie in a submission.
    pub fn encode(&self) -> [u8; 80] {
        let (address, len) = self.buffer;
        // It is about no queue.
        let fields = FieldWriter::new().u32(self.device).u16(u16::MAX).u16(len).u64(address);
        fields.u64(self.data).u16(self.path_len).bytes
    }
}

/// Encodes a command about the request of a tag (`struct ublksrv_io_cmd`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestCommand {
    /// Names the request.
    pub tag: u16,
    /// Answers it: the bytes, or an error as a negative number.
    pub result: i32,
    /// Has the address of the bytes that a read read, or of the room for those of a write.
    pub address: u64,
}

impl RequestCommand {
    /// Returns its bytes, as they lie in a submission.
    pub fn encode(&self) -> [u8; 80] {
        // There is one queue.
        FieldWriter::new().u16(0).u16(self.tag).put(&self.result.to_ne_bytes()).u64(self.address).bytes
    }
}

/// Says what a device is (`struct ublksrv_ctrl_dev_info`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Counts the tags of its queue.
    pub depth: u16,
    /// Tells whether it is served.
    pub state: u16,
    /// Limits the bytes of a request.
    pub longest: u32,
    /// Names the device.
    pub device: u32,
    /// Names the process that serves it.
    pub pid: i32,
    /// Lists its features.
    pub features: u64,
    /// Is the server's own: which array it is.
    pub identity: u64,
    /// Names the user who has it.
    pub owner: u32,
}

impl DeviceInfo {
    /// Counts the bytes of it.
    pub const BYTES: usize = 64;

    /// Returns its bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let fields = FieldWriter::new().u16(1).u16(self.depth).u16(self.state).u16(0);
        let fields = fields.u32(self.longest).u32(self.device).put(&self.pid.to_ne_bytes()).u32(0);
        fields.u64(self.features).u64(self.identity).u32(self.owner).bytes
    }

    /// Reads it.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        Self {
            depth: u16_at(bytes, 2),
            state: u16_at(bytes, 4),
            longest: u32_at(bytes, 8),
            device: u32_at(bytes, 12),
            pid: u32_at(bytes, 16).cast_signed(),
            features: u64_at(bytes, 24),
            identity: u64_at(bytes, 32),
            owner: u32_at(bytes, 40),
        }
    }
}

/// Says how large a device is and what it can do (the first parts of `struct ublk_params`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceParams {
    /// Is a set of `ATTR_…`.
    pub attributes: u32,
    /// Is the binary logarithm of the bytes of a sector, and of what is best written at a time.
    pub sector_shift: u8,
    /// Is the same of a physical block.
    pub block_shift: u8,
    /// Counts the sectors of 512 bytes of a request at most.
    pub longest: u32,
    /// Counts the device's sectors of 512 bytes.
    pub sectors: u64,
    /// Counts the sectors of 512 bytes of a trim, or of zeros, at most.
    pub longest_trim: u32,
}

impl DeviceParams {
    /// Counts the bytes of it.
    pub const BYTES: usize = 60;

    /// Returns its bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let fields = FieldWriter::new().u32(Self::BYTES as u32).u32(PARAMS_BASIC_AND_DISCARD);
        let shifts = [self.sector_shift, self.block_shift, self.block_shift, self.block_shift];
        let fields = fields.u32(self.attributes).put(&shifts).u32(self.longest).u32(0).u64(self.sectors).u64(0);
        fields.u32(0).u32(1 << self.block_shift).u32(self.longest_trim).u32(self.longest_trim).u16(1).bytes
    }

    /// Reads it.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        Self {
            attributes: u32_at(bytes, 8),
            sector_shift: bytes[12],
            block_shift: bytes[13],
            longest: u32_at(bytes, 16),
            sectors: u64_at(bytes, 24),
            longest_trim: u32_at(bytes, 48),
        }
    }
}

/// Describes a request (`struct ublksrv_io_desc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestDescriptor {
    /// Says what is asked for.
    pub op: u8,
    /// Says how: `IO_…`.
    pub flags: u32,
    /// Counts its sectors of 512 bytes.
    pub sectors: u32,
    /// Names the first of them.
    pub first: u64,
}

impl RequestDescriptor {
    /// Reads it.
    pub fn decode(bytes: &[u8; DESCRIPTOR_BYTES]) -> Self {
        let op = u32_at(bytes, 0);
        Self { op: op as u8, flags: op & !0xff, sectors: u32_at(bytes, 4), first: u64_at(bytes, 8) }
    }

    /// Returns its bytes.
    pub fn encode(&self) -> [u8; DESCRIPTOR_BYTES] {
        FieldWriter::new().u32(self.flags | u32::from(self.op)).u32(self.sectors).u64(self.first).bytes
    }
}
