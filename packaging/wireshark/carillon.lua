-- Carillon's packets for Wireshark and tshark: the session (docs/protocols/session.md), the protocols `carillon`
-- and `rra` with all their fields, the envelope of the others, and the outside of sealed datagrams
-- (docs/reference/seal-and-signature.md). How to install it: docs/how-to/wireshark.md.
--
-- What it calls malformed is what Carillon's own decoder refuses, for the same reasons. Only arithmetic that every
-- Lua has since 5.1 is used.

local carillon = Proto("carillon", "Carillon Reliable Multicast")

local UDP_PORT = 7654
local MAGIC, SEAL_MAGIC = 0xCA, 0x5E
-- Version of the session's packets, and of everything behind the fixed opening.
local SESSION_VERSION, WIRE_VERSION = 3, 3
local SESSION, RRA, CARILLON = 0, 3, 50

local PROTOCOLS = {
  [0] = "session", [1] = "msaw", [2] = "mbap", [3] = "rra", [4] = "sequencer", [5] = "erramilli-singh",
  [6] = "chang-maxemchuk", [7] = "lms", [8] = "srm", [9] = "kfold", [20] = "rmtp", [21] = "ramp", [30] = "pf", [31] = "ff",
  [32] = "prmp", [40] = "snr", [41] = "dsp", [42] = "csp", [43] = "cp", [50] = "carillon", [60] = "rmp", [250] = "doctor",
}
local SESSION_TYPES = {
  [1] = "INVITE", [2] = "JOIN", [3] = "WELCOME", [4] = "REFUSE", [5] = "PROGRESS", [6] = "REPORT",
  [7] = "REPORT_ACK", [8] = "LEAVE", [9] = "ROSTER", [10] = "PRESENT", [11] = "READY", [12] = "DECLINE",
  [13] = "ASK", [14] = "ANSWER", [15] = "MEASURE", [16] = "PROBE", [17] = "ECHO", [18] = "DISTANCES",
  [19] = "SIZE", [20] = "CHALLENGE", [21] = "HOLDINGS", [22] = "HOLDINGS_ACK",
}
local CARILLON_TYPES = { [1] = "DATA", [2] = "REPAIR", [3] = "POLL", [4] = "STATUS", [5] = "XOR" }
local RRA_TYPES = { [1] = "DATA", [2] = "ACK", [3] = "POLL" }
local STATES = {
  [0] = "gathering", [1] = "running", [2] = "closing", [3] = "finished", [4] = "aborted", [5] = "assembling",
}
local PARTS = { [0] = "receives", [1] = "offers", [2] = "helps", [3] = "receives and helps" }
local REASONS = {
  [1] = "already started", [2] = "name taken", [3] = "not expected", [4] = "full", [5] = "expelled",
  [6] = "another nonce",
  [7] = "later", [8] = "done",
}
local FORMS = { [0] = "any symbols", [1] = "the messages themselves" }
local VERDICTS = { [0] = "failed", [1] = "verified", [2] = "damaged" }
local YES_NO = { [0] = "no", [1] = "yes" }
local SEALS = { [0x10] = "to the group", [0x11] = "to one", [0x12] = "greeting, to one" }

-- Fields, by the last part of their name after `carillon.`.
local field = {}
local function define(kind, name, title, base, names)
  local make = ProtoField[kind]
  local full = "carillon." .. name
  if kind == "bytes" or kind == "string" or kind == "none" or kind == "framenum" then
    field[name] = make(full, title)
  else
    field[name] = make(full, title, base or base.DEC, names)
  end
end

define("uint8", "magic", "Magic", base.HEX)
define("uint8", "version", "Version", base.DEC)
define("uint8", "protocol", "Protocol", base.DEC, PROTOCOLS)
define("uint8", "type", "Packet type", base.DEC)
define("uint32", "association", "Association (or the member's token)", base.HEX)
define("bytes", "rest", "Not dissected")
define("bytes", "padding", "Padding")

define("uint8", "session.type", "Session packet", base.DEC, SESSION_TYPES)
define("uint8", "session.state", "State", base.DEC, STATES)
define("uint8", "session.protocol_len", "Length of the protocol's name", base.DEC)
define("uint8", "session.sender_len", "Length of the sender's name", base.DEC)
define("uint16", "session.wire", "Wire version", base.DEC)
define("uint8", "session.major", "Release, first number", base.DEC)
define("uint8", "session.minor", "Release, second number", base.DEC)
define("uint8", "session.patch", "Release, third number", base.DEC)
define("uint8", "session.extension", "Extension", base.DEC)
define("uint16", "session.extension_len", "Length of the extension", base.DEC)
define("uint8", "session.reason_len", "Length of the reason", base.DEC)
define("uint16", "session.settings_len", "Length of the settings", base.DEC)
define("uint8", "session.name_len", "Length of the name", base.DEC)
define("uint8", "session.text_len", "Length of the text", base.DEC)
define("uint32", "session.max_payload", "Largest payload", base.DEC)
define("uint16", "session.progress_interval", "Between two PROGRESS, ms", base.DEC)
define("uint8", "session.relays", "Routers may help", base.DEC, YES_NO)
define("uint16", "session.longest", "Longest datagram shown", base.DEC)
define("uint16", "session.least", "Least datagram shown", base.DEC)
define("string", "session.protocol", "Protocol")
define("string", "session.setting", "Setting")
define("string", "session.reason", "Reason")
define("uint64", "session.nonce", "Nonce", base.HEX)
define("uint32", "session.receive_buffer", "Receive buffer, bytes", base.DEC)
define("uint8", "session.part", "Part", base.DEC, PARTS)
define("uint16", "session.largest", "Largest datagram that came", base.DEC)
define("string", "session.name", "Name")
define("bytes", "session.attached", "Attached")
define("uint64", "session.cookie", "Cookie", base.HEX)
define("bytes", "session.job", "Job")
define("none", "session.asks", "Asks for holdings")
define("string", "session.job_name", "Job name")
define("bytes", "session.list", "List")
define("uint32", "session.question", "Question", base.DEC)
define("uint32", "session.answer_len", "Bytes of the answer", base.DEC)
define("uint32", "session.answer_offset", "Offset in the answer", base.DEC)
define("bytes", "session.holdings", "Holdings")
define("uint32", "session.answered", "Bytes without a gap", base.DEC)
define("uint64", "session.process", "Process", base.HEX)
define("uint64", "session.place", "Place", base.HEX)
define("uint8", "session.origin_flags", "Resumes (1), done (2)", base.DEC)
define("uint32", "session.member", "Member number", base.DEC)
define("uint64", "session.terms", "Terms", base.HEX)
define("uint8", "session.refused", "Refused because", base.DEC, REASONS)
define("string", "session.text", "Text")
define("uint64", "session.bytes", "Bytes", base.DEC)
define("uint8", "session.verdict", "Verdict", base.DEC, VERDICTS)
define("uint32", "session.edition", "Edition", base.DEC)
define("uint16", "session.total", "Members in all", base.DEC)
define("uint16", "session.first", "Rank of the first", base.DEC)
define("uint16", "session.count", "Members here", base.DEC)
define("none", "session.peer", "Member")
define("uint64", "session.identity", "Identity", base.HEX)
define("uint8", "session.flags", "Flags (1 offers, 2 gone, 4 helps, 8 turns to a helper, 16 receives)", base.HEX)
define("uint16", "session.parent", "Turns to rank", base.DEC)
define("uint64", "session.proof", "Proof", base.HEX)
define("uint64", "session.token", "Probe", base.HEX)
define("uint8", "session.distances", "Distances", base.DEC)
define("uint16", "session.rank", "Rank", base.DEC)
define("uint32", "session.micros", "There and back, us", base.DEC)

define("uint8", "own.type", "Packet of carillon", base.DEC, CARILLON_TYPES)
define("uint32", "own.sequence", "Sequence", base.DEC)
define("uint16", "own.index", "Place in the block", base.DEC)
define("uint32", "own.block", "Block (its first message)", base.DEC)
define("uint16", "own.length", "Messages in the block (0: it is open)", base.DEC)
define("uint16", "own.count", "Packets beyond first transmissions", base.DEC)
define("uint16", "own.number", "Symbol", base.DEC)
define("uint16", "own.planned", "Symbols planned", base.DEC)
define("uint16", "own.more", "More are due", base.DEC)
define("bytes", "own.message", "Message")
define("bytes", "own.symbol", "Symbol's bytes")
define("bytes", "own.sum", "Sum")
define("uint32", "own.next", "One past the last message sent", base.DEC)
define("uint32", "own.first", "Oldest message held", base.DEC)
define("uint32", "own.question", "Question", base.DEC)
define("uint32", "own.after", "Others may ask after, us", base.DEC)
define("uint32", "own.span", "Spread over, us", base.DEC)
define("uint16", "own.blocks", "Blocks", base.DEC)
define("uint16", "own.asked", "Asked", base.DEC)
define("none", "own.one", "Block")
define("uint32", "own.identity", "Asks", base.HEX)
define("uint32", "own.expected", "First message it lacks", base.DEC)
define("uint32", "own.arrived", "Data packets that have come", base.DEC)
define("uint32", "own.room", "Messages it has room for", base.DEC)
define("uint16", "own.lacks", "Symbols it lacks", base.DEC)
define("uint8", "own.form", "What helps", base.DEC, FORMS)
define("uint8", "own.words", "Words of the map", base.DEC)
define("uint64", "own.map", "Missing, 64 places", base.HEX)
define("uint8", "own.places", "Places", base.DEC)
define("uint32", "own.place", "Place", base.DEC)

define("uint8", "rra.type", "Packet of rra", base.DEC, RRA_TYPES)
define("uint32", "rra.sequence", "Sequence", base.DEC)
define("uint32", "rra.first", "Oldest message held", base.DEC)
define("uint32", "rra.acker", "Asks", base.HEX)
define("uint32", "rra.question", "Question", base.DEC)
define("bytes", "rra.message", "Message")
define("uint32", "rra.expected", "First message it lacks", base.DEC)
define("uint32", "rra.arrived", "Data packets that have come", base.DEC)
define("uint16", "rra.room", "Messages it has room for", base.DEC)
define("uint16", "rra.words", "Words of the map", base.DEC)
define("uint64", "rra.map", "There beyond it, 64 places", base.HEX)

define("uint8", "seal.kind", "Sealed", base.HEX, SEALS)
define("bytes", "seal.salt", "Salt")
define("uint64", "seal.counter", "Counter", base.DEC)
define("bytes", "seal.content", "Content, sealed")
define("bytes", "seal.tag", "Tag")

define("framenum", "asked_in", "The question is in")
define("framenum", "answered_in", "An answer is in")

local all = {}
for _, one in pairs(field) do all[#all + 1] = one end
carillon.fields = all

local malformed = ProtoExpert.new("carillon.malformed", "Malformed: Carillon does not take it", expert.group.MALFORMED, expert.severity.ERROR)
local cut = ProtoExpert.new("carillon.cut", "The capture has not all of it", expert.group.UNDECODED, expert.severity.NOTE)
local unknown = ProtoExpert.new("carillon.unknown", "Not a packet of this release", expert.group.PROTOCOL, expert.severity.WARN)
local broken = ProtoExpert.new("carillon.broken", "The dissector is wrong", expert.group.PROTOCOL, expert.severity.ERROR)
carillon.experts = { malformed, cut, unknown, broken }

-- Where the questions and their answers are: by the end that asks, the protocol and the number.
local questions, answers = {}, {}
function carillon.init()
  questions, answers = {}, {}
end

-- What is left of a packet. What is wrong with it ends its dissection with a table as error.
local Cursor = {}
Cursor.__index = Cursor

local function wrong(text)
  error({ malformed = text }, 0)
end

function Cursor:left()
  return self.tvb:reported_len() - self.at
end

-- The next bytes, which have to be there.
function Cursor:range(len, what)
  if len > self:left() then wrong(what .. " ends too soon") end
  if self.at + len > self.tvb:captured_len() then error({ cut = true }, 0) end
  local range = self.tvb(self.at, len)
  self.at = self.at + len
  return range
end

-- The next number, of at most four bytes; returned with the item that shows it.
function Cursor:number(len, name)
  local range = self:range(len, name)
  local item = self.tree:add(field[name], range)
  return range:uint(), item
end

function Cursor:long(name)
  local range = self:range(8, name)
  self.tree:add(field[name], range)
  return range:uint64()
end

-- A number that is one of a table.
function Cursor:one_of(len, name, names)
  local value = self:number(len, name)
  if names[value] == nil then wrong(name .. " cannot be " .. value) end
  return names[value], value
end

-- All that is left, if anything is.
function Cursor:rest(name)
  local len = self:left()
  if len > 0 then self.tree:add(field[name], self:range(len, name)) end
  return len
end

-- Characters that cannot be seen, or change how those around them are shown.
local function is_hidden(c)
  return c < 0x20 or (c >= 0x7f and c <= 0x9f) or c == 0xad or c == 0x61c or c == 0x180e or c == 0x200b
    or c == 0x200e or c == 0x200f or (c >= 0x2028 and c <= 0x202e) or (c >= 0x2060 and c <= 0x206f)
    or c == 0xfeff or (c >= 0xfff9 and c <= 0xfffb) or (c >= 0xe0000 and c <= 0xe007f)
end

-- Whether these bytes are UTF-8 without hidden characters, line feeds aside where they are allowed.
local function is_text(raw, lines)
  local at, len = 1, #raw
  while at <= len do
    local first = raw:byte(at)
    local more, least, c
    if first < 0x80 then more, least, c = 0, 0, first
    elseif first >= 0xc2 and first <= 0xdf then more, least, c = 1, 0x80, first - 0xc0
    elseif first >= 0xe0 and first <= 0xef then more, least, c = 2, 0x800, first - 0xe0
    elseif first >= 0xf0 and first <= 0xf4 then more, least, c = 3, 0x10000, first - 0xf0
    else return false end
    for next = at + 1, at + more do
      local byte = raw:byte(next)
      if byte == nil or byte < 0x80 or byte > 0xbf then return false end
      c = c * 64 + byte - 0x80
    end
    if c < least or c > 0x10ffff or (c >= 0xd800 and c <= 0xdfff) then return false end
    if is_hidden(c) and not (lines and c == 10) then return false end
    at = at + more + 1
  end
  return true
end

-- A text of so many bytes, of so many at most.
function Cursor:text(len, name, most, needed)
  if len == 0 then
    if needed then wrong(name .. " is empty") end
    return ""
  end
  local range = self:range(len, name)
  local raw = range:bytes():raw()
  if len > most or not is_text(raw) then
    self.tree:add(field[name], range, "?")
    wrong(name .. (len > most and " is too long" or " is no text"))
  end
  local text = range:string(ENC_UTF_8)
  self.tree:add(field[name], range, text)
  return text
end

function Cursor:name_of(len, name) return self:text(len, name, 64, true) end
function Cursor:words_of(len, name) return self:text(len, name, 128, false) end

-- A name or a text behind its length.
function Cursor:counted_name(name)
  return self:name_of(self:number(1, "session.name_len"), name or "session.name")
end
function Cursor:counted_text()
  return self:words_of(self:number(1, "session.text_len"), "session.text")
end

-- Lines of key=value.
function Cursor:settings(len)
  if len == 0 then return end
  local range = self:range(len, "settings")
  local raw = range:bytes():raw()
  if len > 900 or not is_text(raw, true) then wrong("the settings are no text of at most 900 bytes") end
  local at = 0
  for line in (raw .. "\n"):gmatch("(.-)\n") do
    local part = #line > 0 and range(at, #line) or range
    self.tree:add(field["session.setting"], part, line)
    if not line:find("=", 2, true) or line:find("=", 1, true) == 1 then wrong("a setting has no key or no value") end
    at = at + #line + 1
  end
end

local function quoted(name) return '"' .. name .. '"' end
local function several(count, what) return count .. " " .. what .. (count == 1 and "" or "s") end
local function aside(text) return text == "" and "" or " (" .. text .. ")" end

-- Session packets: each returns what the summary says of it.
local session = {}

-- The fixed opening, the same in every release: returns the name.
local function opening(c)
  local wire = c:number(2, "session.wire")
  local major, minor, patch = c:number(1, "session.major"), c:number(1, "session.minor"), c:number(1, "session.patch")
  if wire ~= WIRE_VERSION then
    wrong(string.format("release %d.%d.%d with wire version %d", major, minor, patch, wire))
  end
  return c:counted_name()
end

-- Extension fields; known are functions that check a value of this length.
local function extensions(c, known)
  local last = -1
  while c:left() > 0 do
    local kind = c:number(1, "session.extension")
    if kind <= last then wrong("extensions stand in ascending order") end
    last = kind
    local len = c:number(2, "session.extension_len")
    if known[kind] then
      known[kind](len)
    elseif kind >= 128 then
      wrong("a critical extension that is not known")
    else
      c:range(len, "an extension")
    end
  end
end

function session.INVITE(c)
  local sender = opening(c)
  local state = c:one_of(1, "session.state", STATES)
  local protocol_len = c:number(1, "session.protocol_len")
  local reason_len = c:number(1, "session.reason_len")
  c:one_of(1, "session.relays", YES_NO)
  local payload = c:number(4, "session.max_payload")
  local settings_len = c:number(2, "session.settings_len")
  c:number(2, "session.progress_interval")
  local longest, least = c:number(2, "session.longest"), c:number(2, "session.least")
  if least > longest or (least == 0) ~= (longest == 0) then wrong("there are no such sizes") end
  if payload == 0 then wrong("the largest payload is 0") end
  local protocol = c:name_of(protocol_len, "session.protocol")
  c:settings(settings_len)
  local reason = c:words_of(reason_len, "session.reason")
  extensions(c, {
    [1] = function(len)
      if len ~= 16 then wrong("a job has 16 bytes") end
      c.tree:add(field["session.job"], c:range(len, "the job"))
    end,
    [5] = function(len)
      if len ~= 0 then wrong("a question has no bytes") end
      c.tree:add(field["session.asks"])
    end,
    [6] = function(len)
      if len == 0 or len > 64 then wrong("a job name has 1 to 64 bytes") end
      c:words_of(len, "session.job_name")
    end,
  })
  return string.format("%s from %s, %s%s", state, quoted(sender), protocol, aside(reason))
end

function session.JOIN(c)
  local name = opening(c)
  c:long("session.nonce")
  c:number(4, "session.receive_buffer")
  local part = c:one_of(1, "session.part", PARTS)
  c:number(2, "session.largest")
  extensions(c, {
    [2] = function(len)
      if len == 0 or len > 288 then wrong("1 to 288 bytes may be attached") end
      c.tree:add(field["session.attached"], c:range(len, "what is attached"))
    end,
    [3] = function(len)
      if len ~= 8 then wrong("a cookie has 8 bytes") end
      c:long("session.cookie")
    end,
    [4] = function(len)
      if len ~= 17 then wrong("an origin has 17 bytes") end
      c:long("session.process")
      c:long("session.place")
      if c:number(1, "session.origin_flags") > 3 then wrong("an origin has flags 1 and 2") end
    end,
    [5] = function(len)
      if len ~= 16 then wrong("a list has 16 bytes") end
      c.tree:add(field["session.list"], c:range(len, "the list"))
    end,
  })
  return quoted(name) .. " " .. part
end

function session.CHALLENGE(c)
  c:long("session.nonce")
  c:long("session.cookie")
end

function session.WELCOME(c)
  c:long("session.nonce")
  local member = c:number(4, "session.member")
  c:long("session.terms")
  return "member " .. member
end

function session.REFUSE(c)
  c:long("session.nonce")
  return c:one_of(1, "session.refused", REASONS) .. aside(c:counted_text())
end

function session.PROGRESS(c)
  c:long("session.nonce")
  return tostring(c:long("session.bytes")) .. " bytes"
end

function session.REPORT(c)
  c:long("session.nonce")
  local bytes = c:long("session.bytes")
  return c:one_of(1, "session.verdict", VERDICTS) .. ", " .. tostring(bytes) .. " bytes" .. aside(c:counted_text())
end

function session.REPORT_ACK(c)
  c:long("session.nonce")
end

function session.LEAVE(c)
  c:long("session.nonce")
  return c:counted_text()
end

local function peer(c)
  c:long("session.identity")
  local flags = c:number(1, "session.flags")
  local has = function(flag) return math.floor(flags / flag) % 2 == 1 end
  if flags >= 32 or (has(1) and (has(4) or has(16))) or (has(16) and not has(4)) then wrong("no member has these flags") end
  if has(8) then
    local parent = c:number(2, "session.parent")
    if parent == 0 or parent >= 1024 then wrong("nobody has the rank that it turns to") end
  end
  return c:counted_name() .. (has(2) and " (gone)" or "")
end

function session.ROSTER(c)
  local edition, total = c:number(4, "session.edition"), c:number(2, "session.total")
  local first, count = c:number(2, "session.first"), c:number(2, "session.count")
  if total == 0 or total > 1024 then wrong("a session has 1 to 1024 members") end
  if c:left() > 1152 then wrong("a page has at most 1152 bytes of members") end
  local names, outer = {}, c.tree
  while #names == 0 or c:left() > 0 do
    local item = outer:add(field["session.peer"], c.tvb(math.min(c.at, c.tvb:captured_len() - 1), 1))
    local began = c.at
    c.tree = item
    names[#names + 1] = peer(c)
    item:set_len(c.at - began)
    item:append_text(": " .. names[#names])
  end
  c.tree = outer
  if #names ~= count then wrong("there are as many members as it does not say") end
  if first + count > total then wrong("the page goes beyond the roster") end
  return string.format("edition %d, %d from %d of %d: %s", edition, count, first, total, table.concat(names, ", "))
end

function session.PRESENT(c)
  c:long("session.proof")
end

function session.READY(c)
  c:long("session.nonce")
  return "edition " .. c:number(4, "session.edition")
end

function session.DECLINE(c)
  local name = opening(c)
  local text = c:counted_text()
  extensions(c, {})
  return quoted(name) .. aside(text)
end

function session.ASK(c)
  c:long("session.nonce")
end

function session.ANSWER(c)
  c:long("session.nonce")
  local state = c:one_of(1, "session.state", STATES)
  c:long("session.terms")
  return state .. aside(c:counted_text())
end

function session.MEASURE(c)
  return "edition " .. c:number(4, "session.edition")
end

function session.PROBE(c)
  c:long("session.token")
end

function session.ECHO(c)
  c:long("session.token")
end

function session.DISTANCES(c)
  c:long("session.nonce")
  local edition, count = c:number(4, "session.edition"), c:number(1, "session.distances")
  if count > 180 then wrong("at most 180 distances fit a packet") end
  if count * 6 > c:left() then wrong("the distances end too soon") end
  for _ = 1, count do
    if c:number(2, "session.rank") >= 1024 then wrong("nobody has that rank") end
    c:number(4, "session.micros")
  end
  return string.format("edition %d, to %d", edition, count)
end

function session.SIZE(c)
  local len = 8 + c:left()
  if c:left() > 0 then
    local range = c:range(c:left(), "padding")
    c.tree:add(field["padding"], range)
    if range:bytes():raw():find("[^%z]") then wrong("the padding is not zeros") end
  end
  return len .. " bytes"
end

function session.HOLDINGS(c)
  c:long("session.nonce")
  local question, total = c:number(4, "session.question"), c:number(4, "session.answer_len")
  local offset, len = c:number(4, "session.answer_offset"), c:left()
  if total == 0 or total > 65536 then wrong("an answer has 1 to 65536 bytes") end
  if len == 0 or len > 1100 or offset + len > total then wrong("the part is not one of the answer") end
  c.tree:add(field["session.holdings"], c:range(len, "the holdings"))
  return string.format("question %d, %d of %d bytes", question, len, total)
end

function session.HOLDINGS_ACK(c)
  c:long("session.nonce")
  local question, bytes = c:number(4, "session.question"), c:number(4, "session.answered")
  return string.format("question %d, %d bytes", question, bytes)
end

local function dissect_session(c)
  local kind = SESSION_TYPES[c:number(1, "session.type")]
  c.tree:add(field["association"], c:range(4, "association"))
  if kind == nil then wrong("there is no such packet") end
  c.said = "Session " .. kind
  local more = session[kind](c)
  if c:left() > 0 then
    c:rest("rest")
    wrong("bytes follow the packet")
  end
  return more
end

-- A packet in the form of a release from before wire versions, such as the notices to them.
local function dissect_earlier(c, version)
  local kind = c:number(1, "session.type")
  c.tree:add(field["association"], c:range(4, "association"))
  c.said = "Session of version " .. version
  if kind ~= 1 or c:left() < 10 then return end
  c:number(1, "session.state")
  local protocol_len, sender_len = c:number(1, "session.protocol_len"), c:number(1, "session.sender_len")
  c:number(1, "session.reason_len")
  c:number(4, "session.max_payload")
  c:number(2, "session.settings_len")
  c:rest("rest")
end

-- Who asks, and what: the key of a question, by the end that asked it.
local function asking(protocol, address, port, number)
  return string.format("%s %s %d %d", protocol, tostring(address), port, number)
end

local function link(c, protocol, number, is_question)
  local pinfo = c.pinfo
  if number == 0 then return end
  local key = is_question and asking(protocol, pinfo.src, pinfo.src_port, number)
    or asking(protocol, pinfo.dst, pinfo.dst_port, number)
  if not pinfo.visited then
    local of = is_question and questions or answers
    of[key] = of[key] or pinfo.number
  end
  local other = is_question and answers[key] or questions[key]
  if other then c.tree:add(field[is_question and "answered_in" or "asked_in"], other):set_generated() end
end

-- The length of a block that is closed.
local function closed(length)
  if length == 0 or length > 16384 then wrong("a block has 1 to 16384 messages") end
end

-- Bits of a gap that go as they are, in a block of this length.
local function low_bits(length)
  local bits, rest = 0, length - 1
  while rest > 0 do bits, rest = bits + 1, math.floor(rest / 2) end
  return math.max(bits - 4, 0)
end

-- Gaps in a Golomb-Rice code, from the highest bit on.
local function places(c, length)
  local count, low = c:number(1, "own.places"), low_bits(length)
  if count < 2 or count > math.min(16, math.floor(113 / (low + 1))) then wrong("no list has so many places") end
  local there = math.min(c:left(), 16)
  if c.at + there > c.tvb:captured_len() then error({ cut = true }, 0) end
  local raw = there > 0 and c.tvb(c.at, there):bytes():raw() or ""
  local bit = function(at)
    local byte = raw:byte(math.floor(at / 8) + 1) or 0
    return math.floor(byte / 2 ^ (7 - at % 8)) % 2
  end
  local bits, next, list = 0, 0, {}
  for _ = 1, count do
    local ones = 0
    while bits + ones < 128 and bit(bits + ones) == 1 do ones = ones + 1 end
    local from = bits + ones + 1
    bits = from + low
    if bits >= 128 then wrong("the list of places has no end") end
    local gap = ones
    for at = from, bits - 1 do gap = gap * 2 + bit(at) end
    if next + gap >= length then wrong("a place is beyond the block") end
    list[#list + 1] = math.floor(next + gap)
    next = next + gap + 1
  end
  local range = c:range(math.ceil(bits / 8), "the list of places")
  for at = bits, math.ceil(bits / 8) * 8 - 1 do
    if bit(at) == 1 then wrong("the list of places ends with ones") end
  end
  for _, place in ipairs(list) do c.tree:add(field["own.place"], range, place) end
  return list
end

-- Words of a map.
local function map(c, name, words)
  if words > 128 then wrong("a map has at most 128 words") end
  if words * 8 > c:left() then wrong("the map ends too soon") end
  for _ = 1, words do c:long(name) end
end

local own = {}

function own.DATA(c)
  local sequence, index = c:number(4, "own.sequence"), c:number(2, "own.index")
  local length = c:number(2, "own.length")
  c:number(2, "own.count")
  if index >= 16384 or (length > 0 and index >= length) then wrong("the place is beyond the block") end
  if length > 16384 then wrong("a block has at most 16384 messages") end
  local block = length == 0 and "open" or tostring(length)
  return string.format("%d, place %d of %s, %d bytes", sequence, index, block, c:rest("own.message"))
end

function own.REPAIR(c)
  local block, length = c:number(4, "own.block"), c:number(2, "own.length")
  closed(length)
  local number, planned = c:number(2, "own.number"), c:number(2, "own.planned")
  local power = planned
  while power > 1 and power % 2 == 0 do power = power / 2 end
  if power ~= 1 or planned > 16384 then wrong("the symbols planned are no power of two up to 16384") end
  if number >= planned then wrong("the symbol is beyond those planned") end
  c:number(2, "own.count")
  local more, len = c:number(2, "own.more"), c:rest("own.symbol")
  if len < 2 or len % 2 == 1 then wrong("a symbol has an even number of bytes") end
  return string.format("block %d+%d, symbol %d of %d, %d bytes, %d more", block, length, number, planned, len, more)
end

function own.POLL(c)
  local next = c:number(4, "own.next")
  c:number(4, "own.first")
  local question = c:number(4, "own.question")
  c:number(4, "own.after")
  c:number(4, "own.span")
  local blocks, asked = c:number(2, "own.blocks"), nil
  if blocks > 64 then wrong("a packet has at most 64 blocks") end
  asked = c:number(2, "own.asked")
  if asked > 256 then wrong("a packet asks at most 256") end
  if asked > 0 and question == 0 then wrong("the question has no number") end
  if blocks * 8 > c:left() then wrong("the blocks end too soon") end
  local outer = c.tree
  for _ = 1, blocks do
    local item = outer:add(field["own.one"], c.tvb(c.at, math.min(8, c.tvb:captured_len() - c.at)))
    c.tree = item
    local first, length = c:number(4, "own.block"), c:number(2, "own.length")
    item:append_text(string.format(" %d+%d", first, length))
    c:number(2, "own.count")
    closed(length)
  end
  c.tree = outer
  if asked * 4 > c:left() then wrong("the list of those asked ends too soon") end
  for at = 1, asked do
    c:number(4, "own.identity")
    link(c, "carillon", (question + at - 1) % 2 ^ 32, true)
  end
  c:rest("padding")
  local asks = asked == 0 and "asks nobody" or string.format("asks %d from question %d on", asked, question)
  return string.format("next %d, %s, %s", next, several(blocks, "block"), asks)
end

function own.STATUS(c)
  local expected, question = c:number(4, "own.expected"), c:number(4, "own.question")
  link(c, "carillon", question, false)
  c:number(4, "own.arrived")
  c:number(4, "own.room")
  local blocks, lacking, outer = c:number(2, "own.blocks"), 0, c.tree
  if blocks > 64 then wrong("a packet has at most 64 blocks") end
  for _ = 1, blocks do
    if c:left() < 1 then wrong("the blocks end too soon") end
    local began = c.at
    local item = outer:add(field["own.one"], c.tvb(math.min(c.at, c.tvb:captured_len() - 1), 1))
    c.tree = item
    local block = c:number(4, "own.block")
    c:number(2, "own.count")
    local lacks = c:number(2, "own.lacks")
    item:append_text(string.format(" %d: lacks %d", block, lacks))
    if lacks == 0 or lacks > 16384 then wrong("a block that is told of lacks 1 to 16384") end
    c:one_of(1, "own.form", FORMS)
    map(c, "own.map", c:number(1, "own.words"))
    item:set_len(c.at - began)
    lacking = lacking + lacks
  end
  c.tree = outer
  c:rest("padding")
  local answers_to = question == 0 and "asks by itself" or "answers " .. question
  local lacks = blocks == 0 and "" or string.format(", lacks %d in %s", lacking, several(blocks, "block"))
  return string.format("expects %d, %s%s", expected, answers_to, lacks)
end

function own.XOR(c)
  local block, length = c:number(4, "own.block"), c:number(2, "own.length")
  closed(length)
  c:number(2, "own.count")
  local list = places(c, length)
  return string.format("block %d+%d, places %s, %d bytes", block, length, table.concat(list, " "), c:rest("own.sum"))
end

local rra = {}

local function rra_asks(c)
  local acker, question = c:number(4, "rra.acker"), c:number(4, "rra.question")
  link(c, "rra", question, true)
  return acker, question
end

function rra.DATA(c)
  local sequence = c:number(4, "rra.sequence")
  c:number(4, "rra.first")
  local acker, question = rra_asks(c)
  if question == 0 and acker ~= 0 then wrong("it asks somebody nothing") end
  local asks = question == 0 and "" or string.format(", asks %#x question %d", acker, question)
  return string.format("%d, %d bytes%s", sequence, c:rest("rra.message"), asks)
end

function rra.POLL(c)
  local sequence = c:number(4, "rra.sequence")
  c:number(4, "rra.first")
  local acker, question = rra_asks(c)
  if question == 0 then wrong("the question has no number") end
  c:rest("padding")
  return string.format("%d, asks %#x question %d", sequence, acker, question)
end

function rra.ACK(c)
  local expected, question = c:number(4, "rra.expected"), c:number(4, "rra.question")
  link(c, "rra", question, false)
  c:number(4, "rra.arrived")
  c:number(2, "rra.room")
  map(c, "rra.map", c:number(2, "rra.words"))
  c:rest("padding")
  return string.format("expects %d, answers %d", expected, question)
end

-- A protocol's packet by its type.
local function dissect_protocol(c, title, names, parts, least)
  local kind = names[c:number(1, title == "rra" and "rra.type" or "own.type")]
  c.tree:add(field["association"], c:range(4, "association"))
  c.said = title .. " " .. (kind or "?")
  if c:left() < least then wrong("the packet ends too soon") end
  if kind == nil then wrong("there is no such packet") end
  return parts[kind](c)
end

local function dissect_sealed(c)
  c:number(1, "magic")
  local kind = SEALS[c:number(1, "seal.kind")]
  c.tree:add(field["seal.salt"], c:range(12, "the salt"))
  local counter = c:long("seal.counter")
  local content = c:left() - 16
  if content > 0 then c.tree:add(field["seal.content"], c:range(content, "the content")) end
  c.tree:add(field["seal.tag"], c:range(16, "the tag"))
  c.said = "Sealed " .. kind
  return string.format("counter %s, %d bytes", tostring(counter), content)
end

local function dissect_envelope(c)
  c:number(1, "magic")
  local version, number = c:number(1, "version"), c:number(1, "protocol")
  if number == SESSION then
    if version < SESSION_VERSION then return dissect_earlier(c, version) end
    return dissect_session(c)
  elseif number == CARILLON then
    return dissect_protocol(c, "carillon", CARILLON_TYPES, own, 0)
  elseif number == RRA then
    return dissect_protocol(c, "rra", RRA_TYPES, rra, 16)
  end
  local kind = c:number(1, "type")
  c.tree:add(field["association"], c:range(4, "association"))
  c:rest("rest")
  c.said = PROTOCOLS[number]
  return "packet of type " .. kind
end

-- Whether the first bytes are those of a packet of this release, and which kind: "sealed" or "plain".
local function kind_of(tvb)
  local len = math.min(tvb:captured_len(), tvb:reported_len())
  if len < 3 then return nil end
  local magic, second, number = tvb(0, 1):uint(), tvb(1, 1):uint(), tvb(2, 1):uint()
  if magic == SEAL_MAGIC and SEALS[second] and tvb:reported_len() >= 38 then return "sealed" end
  if magic ~= MAGIC or PROTOCOLS[number] == nil then return nil end
  if number == SESSION then return (second >= 1 and second <= SESSION_VERSION) and "plain" or nil end
  return second == 1 and "plain" or nil
end

-- Whether a datagram is a packet of PGM, which has no envelope: a known type of version 0, and a checksum that is right.
local PGM_TYPES = { [0] = true, [1] = true, [2] = true, [4] = true, [5] = true, [8] = true, [9] = true, [10] = true, [12] = true, [13] = true }
local function is_pgm(tvb)
  local len = tvb:captured_len()
  if len < 16 or len < tvb:reported_len() or not PGM_TYPES[tvb(4, 1):uint()] then return false end
  local sum = 0
  for at = 0, len - 2, 2 do sum = sum + tvb(at, 2):uint() end
  if len % 2 == 1 then sum = sum + tvb(len - 1, 1):uint() * 256 end
  while sum > 0xFFFF do sum = sum % 0x10000 + math.floor(sum / 0x10000) end
  return sum == 0xFFFF and tvb(6, 2):uint() ~= 0
end

function carillon.dissector(tvb, pinfo, root)
  -- What is not Carillon's is handed over: PGM to its own dissector, and what begins otherwise to Wireshark.
  if kind_of(tvb) == nil and is_pgm(tvb) then
    return DissectorTable.get("ip.proto"):get_dissector(113):call(tvb, pinfo, root)
  end
  local first = tvb:captured_len() > 0 and tvb(0, 1):uint()
  if first ~= MAGIC and first ~= SEAL_MAGIC then return 0 end
  pinfo.cols.protocol = "Carillon"
  local tree = root:add(carillon, tvb())
  local c = setmetatable({ tvb = tvb, at = 0, tree = tree, pinfo = pinfo, said = "Carillon" }, Cursor)
  local kind = kind_of(tvb)
  local done, more
  if kind == nil then
    tree:add_proto_expert_info(unknown)
    pinfo.cols.info = "Not a packet of this release"
    return tvb:captured_len()
  elseif kind == "sealed" then
    done, more = pcall(dissect_sealed, c)
  else
    done, more = pcall(dissect_envelope, c)
  end
  local info = c.said
  if done then
    info = info .. (more and more ~= "" and " " .. more or "")
  elseif type(more) == "table" and more.malformed then
    tree:add_proto_expert_info(malformed, "Malformed: " .. more.malformed)
    info = info .. " [malformed: " .. more.malformed .. "]"
  elseif type(more) == "table" and more.cut then
    tree:add_proto_expert_info(cut)
    info = info .. " [cut]"
  else
    tree:add_proto_expert_info(broken, "The dissector is wrong: " .. tostring(more))
  end
  tree:append_text(": " .. info)
  pinfo.cols.info = info
  return tvb:captured_len()
end

-- Members have ports of their own, so that packets are known by how they begin.
carillon:register_heuristic("udp", function(tvb, pinfo, root)
  if kind_of(tvb) == nil then return false end
  carillon.dissector(tvb, pinfo, root)
  return true
end)
DissectorTable.get("udp.port"):add(UDP_PORT, carillon)
