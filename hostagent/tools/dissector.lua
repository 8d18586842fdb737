-- Shows Castbed's datagrams in Wireshark and tshark. `./castbed dissector` prints this file after a table WIRE of the numbers and names
-- that hostagent/contract/wire.py and the protocols have; hostagent/contract/wire.py says what each byte means.

local castbed = Proto("castbed", "Castbed")

local fields = {
    magic = ProtoField.uint16("castbed.magic", "Magic", base.HEX),
    version = ProtoField.uint8("castbed.version", "Version"),
    protocol = ProtoField.uint8("castbed.protocol", "Protocol"),
    protocol_name = ProtoField.string("castbed.protocol.name", "Protocol name"),
    kind = ProtoField.uint8("castbed.kind", "Kind"),
    kind_name = ProtoField.string("castbed.kind.name", "Kind name"),
    purpose = ProtoField.uint8("castbed.purpose", "Purpose", base.DEC, WIRE.purposes),
    run = ProtoField.uint32("castbed.run", "Run", base.HEX),
    sender = ProtoField.uint16("castbed.sender", "Sender"),
    packet = ProtoField.uint64("castbed.packet", "Packet"),
    incarnation = ProtoField.uint32("castbed.packet.incarnation", "Incarnation of the sender"),
    number = ProtoField.uint32("castbed.packet.number", "Number in this incarnation"),
    group = ProtoField.uint16("castbed.group", "Group"),
    origin = ProtoField.uint16("castbed.origin", "Origin"),
    sequence = ProtoField.uint32("castbed.sequence", "Sequence number"),
    sent = ProtoField.uint64("castbed.sent", "Sent, nanoseconds since 1970"),
    sent_at = ProtoField.absolute_time("castbed.sent.time", "Sent at", base.UTC),
    messages = ProtoField.uint32("castbed.messages", "Messages in the pack"),
    body = ProtoField.bytes("castbed.body", "Body"),
    expensive = ProtoField.bool("castbed.expensive", "Crossed an expensive link"),
}
castbed.fields = fields

local malformed = ProtoExpert.new("castbed.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR)
local unknown = ProtoExpert.new("castbed.unknown", "Unknown", expert.group.UNDECODED, expert.severity.WARN)
local cut = ProtoExpert.new("castbed.cut", "Cut by the capture", expert.group.UNDECODED, expert.severity.NOTE)
castbed.experts = { malformed, unknown, cut }

local dscp_of_frame = Field.new("ip.dsfield.dscp")

-- The header, in its order: field, offset, size.
local HEADER = {
    { fields.magic, 0, 2 },
    { fields.version, 2, 1 },
    { fields.protocol, 3, 1 },
    { fields.kind, 4, 1 },
    { fields.purpose, 5, 1 },
    { fields.run, 6, 4 },
    { fields.sender, 10, 2 },
    { fields.packet, 12, 8 },
    { fields.group, 20, 2 },
    { fields.origin, 22, 2 },
    { fields.sequence, 24, 4 },
    { fields.sent, 28, 8 },
}
-- A message in a pack takes at least a byte for its own fields and one in front of them; the first takes five more for its numbers.
local SMALLEST_MESSAGE = 2
local SMALLEST_FIRST = 5

-- The number at an offset, or nil where the capture does not hold it.
local function number_at(tvb, at, size)
    return at + size <= tvb:len() and tvb(at, size):uint() or nil
end

-- Whether the innermost IPv4 header around has the cost bit; nil without such a header.
local function is_expensive()
    local found = { dscp_of_frame() }
    if #found == 0 then
        return nil
    end
    return found[#found].value == WIRE.cost_dscp
end

local function add_generated(tree, field, ...)
    tree:add(field, ...):set_generated()
end

-- The names of protocol and kind, each nil where there is none of that number.
local function names(protocol, kind)
    local known = WIRE.protocols[protocol]
    return known and known.name, kind == WIRE.pack and "pack" or known and known.kinds[kind]
end

-- How many messages a pack holds, and where that is written. Nil and a complaint if it cannot be a pack, nil alone if it is cut off.
local function count_messages(tvb)
    local at, body = WIRE.header, tvb:reported_len() - WIRE.header
    local first = number_at(tvb, at, 1)
    if body < 1 then
        return nil, nil, "a pack without a body"
    elseif first == nil then
        return nil
    end
    local size = first == 0xdc and 2 or first == 0xdd and 4 or 0
    if size == 0 and (first < 0x90 or first > 0x9f) then
        return nil, nil, "the body of a pack is not an array"
    elseif body < 1 + size then
        return nil, nil, "the body of a pack ends within its length"
    elseif at + 1 + size > tvb:len() then
        return nil
    end
    local count = size == 0 and first - 0x90 or tvb(at + 1, size):uint()
    local wrong = count < 2 or count * SMALLEST_MESSAGE + SMALLEST_FIRST > body - 1 - size
    return count, tvb(at, 1 + size), wrong and string.format("%d messages in a pack of %d bytes", count, body) or nil
end

local function add_header(tvb, tree)
    for _, entry in ipairs(HEADER) do
        local field, at, size = entry[1], entry[2], entry[3]
        if at + size <= tvb:len() then
            local item = tree:add(field, tvb(at, size))
            if field == fields.packet then
                item:add(fields.incarnation, tvb(at, 4))
                item:add(fields.number, tvb(at + 4, 4))
            elseif field == fields.sent then
                local ns = tvb(at, size):uint64()
                local time = NSTime.new((ns / 1000000000):tonumber(), (ns % 1000000000):tonumber())
                add_generated(item, fields.sent_at, tvb(at, size), time)
            end
        end
    end
end

-- What an agent would refuse this datagram for, as far as one can tell without knowing the run.
local function complain(tvb, tree)
    local magic, version, purpose = number_at(tvb, 0, 2), number_at(tvb, 2, 1), number_at(tvb, 5, 1)
    if tvb:reported_len() < WIRE.header then
        tree:add_proto_expert_info(malformed, string.format("%d bytes are no header", tvb:reported_len()))
    elseif tvb:reported_len() > WIRE.longest then
        tree:add_proto_expert_info(malformed, string.format("longer than %d bytes", WIRE.longest))
    end
    if magic ~= nil and magic ~= WIRE.magic then
        tree:add_proto_expert_info(malformed, "not the magic of Castbed")
    elseif version ~= nil and version ~= WIRE.version then
        tree:add_proto_expert_info(malformed, string.format("version %d, not %d", version, WIRE.version))
    elseif purpose ~= nil and WIRE.purposes[purpose] == nil then
        tree:add_proto_expert_info(malformed, string.format("there is no purpose %d", purpose))
    end
    if tvb:len() < WIRE.header and tvb:len() < tvb:reported_len() then
        tree:add_proto_expert_info(cut, "the capture ends within the header")
    end
end

-- The names that follow from the header, and the line for the list of packets.
local function describe(tvb, tree)
    local protocol, kind = number_at(tvb, 3, 1), number_at(tvb, 4, 1)
    if kind == nil then
        return "cut off"
    end
    local protocol_name, kind_name = names(protocol, kind)
    if protocol_name then
        add_generated(tree, fields.protocol_name, tvb(3, 1), protocol_name)
    else
        tree:add_proto_expert_info(unknown, string.format("there is no protocol %d", protocol))
    end
    if kind_name then
        add_generated(tree, fields.kind_name, tvb(4, 1), kind_name)
    elseif protocol_name then
        tree:add_proto_expert_info(unknown, string.format("%s has no message of kind %d", protocol_name, kind))
    end
    local line = (protocol_name or "protocol " .. protocol) .. " " .. (kind_name or "kind " .. kind)
    if kind == WIRE.pack then
        local count, where, complaint = count_messages(tvb)
        if count then
            tree:add(fields.messages, where, count)
            line = string.format("%s of %d", line, count)
        end
        if complaint then
            tree:add_proto_expert_info(malformed, complaint)
        end
    end
    local purpose, sender, origin, sequence = number_at(tvb, 5, 1), number_at(tvb, 10, 2), number_at(tvb, 22, 2), number_at(tvb, 24, 4)
    line = line .. (WIRE.purposes[purpose] and ", " .. WIRE.purposes[purpose] or "")
    line = line .. (sender and string.format(", from %d", sender) or "")
    return line .. (sequence and sequence > 0 and string.format(", message %d of %d", sequence, origin) or "")
end

function castbed.dissector(tvb, pinfo, root)
    pinfo.cols.protocol = "Castbed"
    local tree = root:add(castbed, tvb())
    local line
    if tvb:len() >= 3 and (number_at(tvb, 0, 2) ~= WIRE.magic or number_at(tvb, 2, 1) ~= WIRE.version) then
        -- What follows may mean anything.
        line = "not understood"
    else
        add_header(tvb, tree)
        line = describe(tvb, tree)
        if tvb:len() > WIRE.header then
            tree:add(fields.body, tvb(WIRE.header))
        end
    end
    complain(tvb, tree)
    local expensive = is_expensive()
    if expensive ~= nil then
        add_generated(tree, fields.expensive, expensive)
    end
    pinfo.cols.info = line .. (expensive and ", expensive" or "")
    return tvb:len()
end

-- On other ports: what begins like one of our headers, and has room for the rest of it.
local function looks_like_ours(tvb, pinfo, root)
    local purpose = number_at(tvb, 5, 1)
    if tvb:reported_len() < WIRE.header or number_at(tvb, 0, 2) ~= WIRE.magic or number_at(tvb, 2, 1) ~= WIRE.version
        or purpose == nil or WIRE.purposes[purpose] == nil then
        return false
    end
    castbed.dissector(tvb, pinfo, root)
    return true
end

DissectorTable.get("udp.port"):add(WIRE.port, castbed)
castbed:register_heuristic("udp", looks_like_ours)
