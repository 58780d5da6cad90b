import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintWriter;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.jar.JarFile;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Writes random messages as Kafka's own classes encode them.
 *
 * <p>Arguments: which schemas ("all", or "records" for those that are neither request, answer nor header), how many
 * messages of each version, the seed, the file to write.
 */
public class Vectors {
    /** Where the generated classes live; each package with a class that tells its jar. */
    private static final String[][] PACKAGES = {
        {"org.apache.kafka.common.message", "org.apache.kafka.common.message.EndTxnMarker"},
        {"org.apache.kafka.coordinator.group.generated",
            "org.apache.kafka.coordinator.group.generated.OffsetCommitKey"},
        {"org.apache.kafka.coordinator.share.generated",
            "org.apache.kafka.coordinator.share.generated.ShareSnapshotKey"},
        {"org.apache.kafka.coordinator.transaction.generated",
            "org.apache.kafka.coordinator.transaction.generated.TransactionLogKey"},
    };

    private static final ObjectMapper MAPPER = new ObjectMapper().enable(JsonParser.Feature.ALLOW_COMMENTS);
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    private final Random random;

    private Vectors(long seed) {
        random = new Random(seed);
    }

    public static void main(String[] arguments) throws Exception {
        boolean recordsOnly = arguments[0].equals("records");
        int count = Integer.parseInt(arguments[1]);
        Vectors vectors = new Vectors(Long.parseLong(arguments[2]));
        int lines = 0;
        try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(Path.of(arguments[3])))) {
            for (String[] place : PACKAGES) {
                for (JsonNode schema : schemas(Class.forName(place[1]))) {
                    String type = schema.get("type").asText();
                    boolean onWire = List.of("request", "response", "header").contains(type);
                    if (!(recordsOnly && onWire)) {
                        lines += vectors.write(place[0], schema, count, out);
                    }
                }
            }
        }
        System.out.println(lines + " messages written");
    }

    /** Reads the schemas out of the jar that a class came from. */
    private static List<JsonNode> schemas(Class<?> inJar) throws Exception {
        List<JsonNode> schemas = new ArrayList<>();
        Path jarPath = Path.of(inJar.getProtectionDomain().getCodeSource().getLocation().toURI());
        try (JarFile jar = new JarFile(jarPath.toFile())) {
            var names = jar.stream().map(entry -> entry.getName())
                .filter(name -> name.startsWith("common/message/") && name.endsWith(".json")).sorted().toList();
            for (String name : names) {
                schemas.add(MAPPER.readTree(jar.getInputStream(jar.getEntry(name))));
            }
        }
        return schemas;
    }

    private int write(String place, JsonNode schema, int count, PrintWriter out) throws Exception {
        String name = schema.get("name").asText();
        short[] valid = range(schema.get("validVersions").asText());
        if (valid == null) {
            return 0;
        }
        String type = schema.get("type").asText();
        boolean hasData = List.of("request", "response", "header").contains(type);
        Class<?> converter = Class.forName(place + "." + name + (hasData ? "Data" : "") + "JsonConverter");
        Method read = converter.getMethod("read", JsonNode.class, short.class);
        int lines = 0;
        for (short version = valid[0]; version <= valid[1]; version++) {
            for (int i = 0; i < count; i++) {
                JsonNode json = structure(schema, schema.get("fields"), version);
                Message message = (Message) read.invoke(null, json, version);
                ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
                byte[] bytes = new byte[buffer.remaining()];
                buffer.get(bytes);
                int key = schema.path("apiKey").asInt(-1);
                out.println(String.join("\t", name, Integer.toString(key), Short.toString(version),
                    HexFormat.of().formatHex(bytes), MAPPER.writeValueAsString(json)));
                lines++;
            }
        }
        return lines;
    }

    /** Returns the ends of a range of versions, or null if it has none. */
    private static short[] range(String text) {
        if (text.equals("none")) {
            return null;
        }
        if (text.endsWith("+")) {
            return new short[] {Short.parseShort(text.substring(0, text.length() - 1)), Short.MAX_VALUE};
        }
        String[] ends = text.split("-");
        return new short[] {Short.parseShort(ends[0]), Short.parseShort(ends[ends.length - 1])};
    }

    private static boolean holds(JsonNode field, String key, short version) {
        short[] range = field.has(key) ? range(field.get(key).asText()) : null;
        return range != null && range[0] <= version && version <= range[1];
    }

    private ObjectNode structure(JsonNode schema, JsonNode fields, short version) {
        ObjectNode node = NODES.objectNode();
        for (JsonNode field : fields) {
            String versions = field.has("versions") ? "versions" : "taggedVersions";
            boolean leftOut = field.has("tag") && random.nextBoolean();
            if (!holds(field, versions, version) || leftOut) {
                continue;
            }
            String name = field.get("name").asText();
            String key = Character.toLowerCase(name.charAt(0)) + name.substring(1);
            boolean isNull = holds(field, "nullableVersions", version) && random.nextInt(4) == 0;
            node.set(key, isNull ? NODES.nullNode() : value(schema, field, field.get("type").asText(), version));
        }
        return node;
    }

    private JsonNode value(JsonNode schema, JsonNode field, String type, short version) {
        if (type.startsWith("[]")) {
            ArrayNode array = NODES.arrayNode();
            for (int left = random.nextInt(4); 0 < left; left--) {
                array.add(value(schema, field, type.substring(2), version));
            }
            return array;
        }
        return switch (type) {
            case "bool" -> NODES.booleanNode(random.nextBoolean());
            case "int8" -> NODES.numberNode((byte) number(8));
            case "int16" -> NODES.numberNode((short) number(16));
            case "uint16" -> NODES.numberNode((int) number(16) & 0xffff);
            case "int32" -> NODES.numberNode((int) number(32));
            case "int64" -> NODES.numberNode(number(64));
            case "float64" -> NODES.numberNode(random.nextGaussian());
            case "uuid" -> NODES.textNode(new Uuid(random.nextLong(), random.nextLong()).toString());
            case "string" -> NODES.textNode(text());
            case "bytes", "records" -> NODES.binaryNode(bytes());
            default -> structure(schema, fields(schema, field, type), version);
        };
    }

    private static JsonNode fields(JsonNode schema, JsonNode field, String type) {
        for (JsonNode common : schema.path("commonStructs")) {
            if (common.get("name").asText().equals(type)) {
                return common.get("fields");
            }
        }
        return field.get("fields");
    }

    /** Returns a number of so many bits, its ends and small ones more often than others. */
    private long number(int bits) {
        long highest = -1L >>> (65 - bits);
        return switch (random.nextInt(6)) {
            case 0 -> highest;
            case 1 -> -highest - 1;
            case 2 -> -1;
            case 3 -> random.nextInt(100);
            default -> random.nextLong() >> (64 - bits);
        };
    }

    /** Returns a text; now and then one long enough for two bytes of length. */
    private String text() {
        int length = random.nextInt(40) == 0 ? 100 + random.nextInt(300) : random.nextInt(12);
        StringBuilder text = new StringBuilder();
        while (text.length() < length) {
            text.appendCodePoint("abz09-_.é漢😀".codePointAt(random.nextInt(11)));
        }
        // The index above may have met the second half of a pair.
        return new String(text.toString().getBytes(StandardCharsets.UTF_8), StandardCharsets.UTF_8);
    }

    private byte[] bytes() {
        byte[] bytes = new byte[random.nextInt(40) == 0 ? 5000 : random.nextInt(20)];
        random.nextBytes(bytes);
        return bytes;
    }
}
