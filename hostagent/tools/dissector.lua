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
    sender_name = ProtoField.string("castbed.sender.name", "Sender name"),
    origin_name = ProtoField.string("castbed.origin.name", "Origin name"),
    messages = ProtoField.uint32("castbed.messages", "Messages in the pack"),
    message = ProtoField.string("castbed.message", "Message"),
    message_kind = ProtoField.string("castbed.message.kind", "Kind"),
    message_purpose = ProtoField.string("castbed.message.purpose", "Purpose"),
    message_group = ProtoField.uint16("castbed.message.group", "Group"),
    message_origin = ProtoField.string("castbed.message.origin", "Origin"),
    message_sequence = ProtoField.uint32("castbed.message.sequence", "Sequence number"),
    body = ProtoField.bytes("castbed.body", "Body"),
    expensive = ProtoField.bool("castbed.expensive", "Crossed an expensive link"),
}
-- The fields of messages, by their names. Their values are shown as text.
local field_of = {}
for _, protocol in pairs(WIRE.protocols) do
    for _, names in pairs(protocol.fields) do
        for _, name in ipairs(names) do
            field_of[name] = field_of[name] or ProtoField.string("castbed.body." .. name, name)
        end
    end
end
local every_field = {}
for _, field in pairs(fields) do
    table.insert(every_field, field)
end
for _, field in pairs(field_of) do
    table.insert(every_field, field)
end
castbed.fields = every_field

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

-- A host by its name, or by its number where this file has no names.
local function host(number)
    return WIRE.hosts[number] or tostring(number)
end

-- MessagePack. A value is { at, size, text, items, number, octets }: where it is, and what it is. Nil where the capture ends within it.
local DEEPEST = 16
local SIZES = { [0xc4] = 1, [0xc5] = 2, [0xc6] = 4, [0xd9] = 1, [0xda] = 2, [0xdb] = 4, [0xdc] = 2, [0xdd] = 4, [0xde] = 2, [0xdf] = 4 }
local read

local function read_array(tvb, at, start, count, depth)
    local items, texts, from = {}, {}, start
    for number = 1, count do
        local item = depth < DEEPEST and read(tvb, from, depth + 1)
        if not item then
            return nil
        end
        items[number], texts[number] = item, item.text
        from = from + item.size
    end
    return { at = at, size = from - at, items = items, text = "[" .. table.concat(texts, ", ") .. "]" }
end

local function read_map(tvb, at, start, count, depth)
    local flat = read_array(tvb, at, start, 2 * count, depth)
    if not flat then
        return nil
    end
    local texts = {}
    for number = 1, count do
        texts[number] = flat.items[2 * number - 1].text .. ": " .. flat.items[2 * number].text
    end
    return { at = at, size = flat.size, text = "{" .. table.concat(texts, ", ") .. "}" }
end

local function read_octets(tvb, at, start, size, is_text)
    if start + size > tvb:len() then
        return nil
    end
    local octets = size > 0 and tvb(start, size):bytes() or ByteArray.new()
    local text = is_text and (size > 0 and tvb(start, size):string() or "") or octets:tohex(true)
    return { at = at, size = start + size - at, text = text, octets = not is_text and octets or nil }
end

local function read_number(tvb, at, first)
    local unsigned, signed = { [0xcc] = 1, [0xcd] = 2, [0xce] = 4, [0xcf] = 8 }, { [0xd0] = 1, [0xd1] = 2, [0xd2] = 4, [0xd3] = 8 }
    local real = { [0xca] = 4, [0xcb] = 8 }
    local size = unsigned[first] or signed[first] or real[first]
    if size == nil or at + 1 + size > tvb:len() then
        return nil
    end
    local range = tvb(at + 1, size)
    local value
    if real[first] then
        value = range:float()
    elseif size == 8 then
        value = unsigned[first] and range:uint64() or range:int64()
    else
        value = unsigned[first] and range:uint() or range:int()
    end
    return { at = at, size = 1 + size, text = tostring(value), number = size < 8 and not real[first] and value or nil }
end

function read(tvb, at, depth)
    local first = number_at(tvb, at, 1)
    if first == nil then
        return nil
    elseif first <= 0x7f or first >= 0xe0 then
        local value = first <= 0x7f and first or first - 0x100
        return { at = at, size = 1, text = tostring(value), number = value }
    elseif first <= 0x8f then
        return read_map(tvb, at, at + 1, first - 0x80, depth)
    elseif first <= 0x9f then
        return read_array(tvb, at, at + 1, first - 0x90, depth)
    elseif first <= 0xbf then
        return read_octets(tvb, at, at + 1, first - 0xa0, true)
    elseif first == 0xc0 or first == 0xc2 or first == 0xc3 then
        return { at = at, size = 1, text = first == 0xc0 and "none" or first == 0xc2 and "false" or "true" }
    elseif SIZES[first] then
        local length, start = number_at(tvb, at + 1, SIZES[first]), at + 1 + SIZES[first]
        if length == nil then
            return nil
        elseif first >= 0xde then
            return read_map(tvb, at, start, length, depth)
        elseif first >= 0xdc then
            return read_array(tvb, at, start, length, depth)
        end
        return read_octets(tvb, at, start, length, first >= 0xd9)
    end
    return read_number(tvb, at, first)
end

-- The names in a set of hosts: a big-endian number in which bit i stands for host i + 1.
local function names_in(octets)
    local names = {}
    for place = octets:len() - 1, 0, -1 do
        local octet = octets:get_index(place)
        for bit = 0, 7 do
            if math.floor(octet / 2 ^ bit) % 2 == 1 then
                table.insert(names, host((octets:len() - 1 - place) * 8 + bit + 1))
            end
        end
    end
    return "{" .. table.concat(names, ", ") .. "}"
end

-- The fields of a message, an array, each by its name. Fields at the end that have their default are not sent.
local function add_fields(tvb, tree, protocol, kind, array)
    local names = protocol and protocol.fields[kind] or {}
    for place, value in ipairs(array.items) do
        local text = value.octets and protocol and protocol.host_sets[kind] and protocol.host_sets[kind][place] and names_in(value.octets) or value.text
        local name = names[place]
        if name then
            tree:add(field_of[name], tvb(value.at, value.size), text)
        else
            tree:add(tvb(value.at, value.size), string.format("field %d: %s", place, text))
        end
    end
end

-- A message with what it is about: about has kind, purpose, group, origin and sequence.
local function add_message(tvb, tree, range, protocol, about, array)
    local kind = protocol and protocol.kinds[about.kind] or "kind " .. about.kind
    local line = kind .. (about.sequence > 0 and string.format(" %s:%d", host(about.origin), about.sequence) or " of " .. host(about.origin))
    local branch = tree:add(fields.message, range, line)
    add_generated(branch, fields.message_kind, range, kind)
    add_generated(branch, fields.message_purpose, range, WIRE.purposes[about.purpose] or tostring(about.purpose))
    add_generated(branch, fields.message_group, range, about.group)
    add_generated(branch, fields.message_origin, range, host(about.origin))
    add_generated(branch, fields.message_sequence, range, about.sequence)
    if array and array.items then
        add_fields(tvb, branch, protocol, about.kind, array)
    end
end

-- The entries of a pack: [fields, kind, purpose, group, origin, sequence], or [fields] for one that follows the one before it.
local function add_entries(tvb, tree, protocol, count, at)
    local about
    for _ = 1, count do
        local entry = read(tvb, at, 0)
        if not entry or not entry.items or #entry.items == 0 then
            return
        end
        local items = entry.items
        if #items == 6 then
            about = { kind = items[2].number, purpose = items[3].number, group = items[4].number, origin = items[5].number, sequence = items[6].number }
        elseif about then
            about.sequence = about.sequence + 1
        end
        if not (about and about.kind and about.purpose and about.group and about.origin and about.sequence) then
            return
        end
        add_message(tvb, tree, tvb(at, entry.size), protocol, about, items[1])
        at = at + entry.size
    end
end

-- The messages in a datagram, as far as the capture holds them.
local function add_messages(tvb, tree)
    if tvb:len() < WIRE.header then
        return
    end
    local protocol, kind = WIRE.protocols[tvb(3, 1):uint()], tvb(4, 1):uint()
    if kind == WIRE.pack then
        local count, where, complaint = count_messages(tvb)
        if count and not complaint then
            add_entries(tvb, tree, protocol, count, WIRE.header + where:len())
        end
        return
    end
    local about = { kind = kind, purpose = tvb(5, 1):uint(), group = tvb(20, 2):uint(), origin = tvb(22, 2):uint(), sequence = tvb(24, 4):uint() }
    add_message(tvb, tree, tvb(0), protocol, about, tvb:len() > WIRE.header and read(tvb, WIRE.header, 0) or nil)
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
            elseif field == fields.sender or field == fields.origin then
                local name = WIRE.hosts[tvb(at, size):uint()]
                if name then
                    add_generated(item, field == fields.sender and fields.sender_name or fields.origin_name, tvb(at, size), name)
                end
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
    line = line .. (sender and ", from " .. host(sender) or "")
    return line .. (sequence and sequence > 0 and string.format(", message %d of %s", sequence, host(origin)) or "")
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
            add_messages(tvb, tree)
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
