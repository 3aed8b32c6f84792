"""The scenarios that also run in the guest, because they depend on features of Debian's kernels that this one may lack.

Each kernel is booted once for its claims (tests/guest). An entry is a file below `tests/`, or one test of it. `make
test` runs the most important ones, because a set-up of nodes takes a minute there; `make guest` runs ``MORE`` too, in
more boots.
"""

GENERIC = (
    "scenarios/protection/test_transport_mode.py::test_a_relay_sees_esp_only_with_any_suite[gcm]",
    "scenarios/protection/test_protection.py::test_user_data_sent_before_there_is_an_sa_is_dropped_and_not_leaked",
)
"""Claims for Debian's ordinary kernel."""

RT = (
    "scenarios/protection/test_transport_mode.py",
    "scenarios/protection/test_boot.py",
    "scenarios/networks/test_networks.py::test_hosts_behind_peers_talk_and_the_relay_sees_esp_alone",
    "scenarios/scheduling/test_control_groups.py",
    "scenarios/radio/test_radio.py",
    "scenarios/radio/test_radio_routing.py",
    "scenarios/radio/test_meshsec_radio.py::test_a_radio_is_judged_by_the_rules_of_the_domain_that_is_told_of_it",
)
"""Claims for the kernel that a vehicle runs."""

MORE = (
    "scenarios/operations/test_restarts.py::test_all_daemons_of_a_node_killed_at_once_come_back_to_protection",
    "scenarios/protection/test_protection.py::test_user_data_sent_before_there_is_an_sa_is_dropped_and_not_leaked",
    "attacks/test_access_clients.py",
    "attacks/test_node_fleet_port.py",
    "scenarios/operations/test_zeroize.py",
    "scenarios/protection/test_joining.py",
    "scenarios/protection/test_levels.py",
    # There the benchmark's port in the clear and IPsec in transport mode have the same addresses.
    "scenarios/operations/test_bench_throughput.py::test_both_ends_must_open_and_it_is_one_port_that_status_and_doctor_show",
    "scenarios/operations/test_bench_throughput.py::test_it_closes_when_meshsecd_is_killed",
    "attacks/test_node_ike_ports.py",
    "attacks/test_node_ipv4_claims.py",
    "attacks/test_wall.py",
    "attacks/test_key_exchange_answers.py::test_forged_answers_do_not_keep_a_pair_apart[refusal]",
    "attacks/test_key_exchange_answers.py::test_forged_answers_do_not_keep_a_pair_apart[acceptance]",
    "attacks/test_key_exchange_answers.py::test_word_in_the_clear_after_the_first_exchange_is_not_heard",
    "attacks/test_key_exchange_liveness.py::test_a_peer_that_lost_its_sa_and_asks_for_another_is_not_taken_for_protected",
    "attacks/test_key_exchange_sources.py::test_a_message_whose_source_became_a_strangers_is_not_heard",
    "attacks/test_what_held_wire.py::test_repeated_ike_and_esp_is_delivered_once_and_moves_nothing",
    "attacks/test_what_held_wire.py::test_without_the_replay_window_repeated_esp_is_delivered_again",
    "attacks/test_inside_the_sa.py::test_a_peer_cannot_send_with_the_source_of_another_through_its_own_sa",
    "attacks/test_inside_the_sa.py::test_traffic_selectors_wider_than_the_card_are_narrowed_to_it",
    "attacks/test_inside_the_sa.py::test_traffic_selectors_of_another_peer_get_no_child_sa",
    "attacks/test_inside_the_sa.py::test_the_key_of_another_peer_is_worth_nothing_under_ones_own_identity",
    "attacks/test_inside_the_sa.py::test_a_revoked_peer_that_heeds_no_delete_is_not_heard_any_more",
    "attacks/test_inside_the_sa.py::test_no_payload_of_a_peer_ends_or_moves_the_sa_of_another",
    "scenarios/radio/test_air.py",
    "scenarios/networks/test_networks.py",
    "scenarios/networks/test_cards.py",
    "scenarios/networks/test_gateways.py",
    "scenarios/networks/test_keys.py",
    "scenarios/networks/test_clients.py",
    "scenarios/networks/test_overlay.py",
    "scenarios/networks/test_links.py::test_far_ends_reach_each_other_and_the_internet_sees_ike_and_esp_alone",
    "scenarios/networks/test_links.py::test_a_second_uplink_takes_over_when_the_first_falls_silent",
    "scenarios/networks/test_links.py::test_a_second_uplink_takes_over_when_the_first_loses_its_carrier",
    "scenarios/networks/test_links.py::test_the_first_uplink_is_used_again",
    "scenarios/networks/test_links.py::test_a_linked_node_gets_no_selectors_beside_the_paths",
    "scenarios/networks/test_links.py::test_frames_from_elsewhere_do_not_get_into_a_path",
    "scenarios/networks/test_links.py::test_a_restart_of_meshsecd_moves_nothing",
    "scenarios/networks/test_links.py::test_nothing_leaves_in_the_clear_when_the_daemons_die",
    "scenarios/networks/test_links.py::test_a_flood_at_an_uplink_does_not_keep_the_linked_node_out",
    "scenarios/networks/test_links.py::test_a_node_that_is_not_trusted_gets_no_link",
    "scenarios/networks/test_selectors.py",
    "scenarios/ike/test_libreswan.py",
    "scenarios/ike/test_libreswan_driven.py::test_user_data_passes_as_esp_alone_and_again_after_pluto_was_killed",
    "scenarios/protection/test_protection.py::test_a_relay_sees_ike_and_esp_and_nothing_in_the_clear_from_the_start_on",
    "scenarios/protection/test_protection.py::test_ipv4_user_data_is_protected_too",
    "scenarios/operations/test_restarts.py::test_meshsecd_killed_and_restarted_renegotiates_nothing",
    "scenarios/operations/test_restarts.py::test_a_renegotiation_would_have_been_seen",
    "scenarios/ike/test_libreswan_driven.py::test_negotiations_that_cross_leave_one_channel_that_carries",
    "scenarios/ike/test_libreswan_driven.py::test_an_sa_that_the_other_end_has_lost_is_detected_and_made_again",
    "scenarios/ike/test_libreswan_driven.py::test_a_rekeying_between_two_libreswan_loses_little",
    "scenarios/ike/test_libreswan_driven.py::test_what_changes_by_itself_is_no_drift",
    "scenarios/ike/test_libreswan_driven.py::test_what_others_remove_is_reported_until_it_is_fixed",
    "scenarios/ike/test_libreswan_driven.py::test_its_own_leaktest_calls_a_node_with_libreswan_tight",
    "scenarios/ike/test_libreswan_driven.py::test_meshsecd_and_pluto_start_where_run_is_full_and_nothing_leaks",
    "scenarios/protection/test_dscp.py",
    "scenarios/protection/test_policies.py::test_what_the_policy_bypasses_is_reached_in_the_clear_and_a_peer_beside_it_is_not",
    "scenarios/operations/test_restarts.py::test_olsrv2d_killed_and_restarted_keeps_the_sa_and_brings_the_routes_back",
    "scenarios/topology/test_partition.py::test_a_peer_that_returns_within_the_hold_time_finds_its_sa",
    "scenarios/operations/test_live_commands.py::test_status_shows_route_channel_and_set_up_time_of_each_peer",
    "scenarios/operations/test_drift.py::test_sas_that_come_and_go_are_no_drift",
    "scenarios/operations/test_drift.py::test_nothing_is_left_of_a_charon_that_was_killed",
    "scenarios/operations/test_drift.py::test_what_others_configure_in_charon_is_reported_until_it_is_fixed",
    "scenarios/operations/test_drift.py::test_an_sa_of_the_former_policy_is_reported_and_the_fix_makes_another",
    "scenarios/operations/test_drift.py::test_a_policy_of_others_in_the_kernel_is_reported",
    "scenarios/operations/test_drift.py::test_states_and_policies_that_others_removed_are_reported",
    "scenarios/protection/test_leaktest.py::test_a_tight_node_and_its_relay_report_it_so",
    "scenarios/protection/test_trust_list.py::test_a_revoked_peer_is_out_at_once_and_its_card_brings_it_back_only_when_that_is_taken_back",
    "scenarios/protection/test_trust_list.py::test_a_revocation_reaches_a_node_that_was_away_and_the_revoked_key_stays_out",
    "scenarios/ike/test_rotation.py::test_user_data_flows_through_the_change_of_a_key",
    "scenarios/radio/test_radio_sae.py",
    "scenarios/radio/test_meshsec_radio.py::test_an_open_mesh_is_joined_joined_again_and_left",
    "scenarios/radio/test_meshsec_radio.py::test_a_country_opens_a_channel_that_the_world_domain_forbids",
    "scenarios/radio/test_meshsec_radio.py::test_a_mesh_with_a_password_is_joined_by_wpa_supplicant_which_never_outlives_us",
    "scenarios/radio/test_meshsec_radio.py::test_a_password_that_was_wrong_and_is_corrected_is_forgiven",
    "scenarios/radio/test_meshsec_radio.py::test_what_cannot_be_is_refused_with_its_fix_and_nothing_is_changed",
    "scenarios/radio/test_access_point.py",
    "scenarios/radio/test_shared_radio.py",
    "scenarios/radio/test_driver_functions.py",
    "attacks/test_radio_user_data.py",
    "attacks/test_radio_frames.py",
    "attacks/test_radio_floods.py",
)
"""Further claims for the RT kernel."""

AIR = (
    "scenarios/radio/test_airtime.py::test_two_hops_carry_half_of_what_one_hop_carries",
    "scenarios/radio/test_airtime.py::test_hidden_stations_collide_and_rts_saves_their_frames",
)
"""Claims for a guest whose time follows its instructions: the air takes time, and the processor is no part of it."""

AIR_MORE = (
    "scenarios/radio/test_measured_rts.py::test_hidden_stations_find_that_rts_helps_and_keep_it",
    "scenarios/radio/test_measured_rts.py::test_stations_that_hear_each_other_keep_nothing",
    "scenarios/radio/test_airtime.py::test_a_weak_link_carries_nothing_and_a_moved_station_is_heard_again",
    "scenarios/radio/test_airtime.py::test_a_second_medium_is_refused_and_a_bad_configuration_too",
)
"""Further claims for that guest."""
