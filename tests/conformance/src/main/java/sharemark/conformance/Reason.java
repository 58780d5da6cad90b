package sharemark.conformance;

/** The only reasons for which one of Kafka's tests may not pass against a broker outside its JVM. */
public enum Reason {
    BROKER_STOPPED("a broker stopped"),
    INSIDE_JVM("an object inside the JVM broker"),
    PLUG_IN("a plug-in class loaded by the broker"),
    SECURITY("security enforced");

    private final String words;

    Reason(String words) {
        this.words = words;
    }

    /** Returns the words that the page of results uses. */
    public String words() {
        return words;
    }
}
