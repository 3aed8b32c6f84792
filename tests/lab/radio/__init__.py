"""802.11s without hardware: radios of mac80211_hwsim in the nodes' namespaces."""
