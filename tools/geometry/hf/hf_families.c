/* SPDX-License-Identifier: Apache-2.0 */
#include "hf_families.h"

#include <stdio.h>
#include <string.h>

/* Names between blanks. */
static const struct {
	enum hf_family family;
	const char *types;
} families[] = {
	{ HF_ENCODER,
	  " aimv2 albert align altclip apertus1p5_vision_tokenizer audio-spectrogram-transformer autoformer "
	  "beit bert bert-generation big_bird bit blip_2_qformer blt_patcher bridgetower bros camembert "
	  "canine chameleon_vqgan chinese_clip chmv2 clap clip clipseg colmodernvbert conditional_detr "
	  "convbert convnext convnextv2 cvt d_fine dab-detr dac data2vec-audio data2vec-text "
	  "data2vec-vision deberta deberta-v2 deformable_detr deimv2 deit depth_anything depth_pro detr "
	  "dinat dinov2 dinov2_with_registers dinov3_convnext dinov3_vit distilbert donut-swin dpr dpt "
	  "edgetam edgetam_mask_decoder edgetam_video edgetam_video_mask_decoder efficientloftr "
	  "efficientnet electra embedding_gemma2 embedding_gemma2_text emu3_vqgan encodec eomt eomt_dinov3 "
	  "ernie esm esmc esmfold2 eurobert fastspeech2_conformer fastspeech2_conformer_hifigan "
	  "fastspeech2_conformer_with_hifigan flaubert flava flava_image_codebook flava_image_model "
	  "flava_multimodal_model fnet focalnet funnel glm_image_vqmodel glpn granite_speech5_ctc "
	  "grounding-dino groupvit gte hgnet_v2 hiera higgs_audio_v2_tokenizer hubert ibert "
	  "idefics2_perceiver idefics_perciever ijepa informer instructblip_qformer "
	  "instructblipvideo_qformer janus_vqgan jina_embeddings_v3 lasr_ctc layoutlm layoutlmv2 layoutlmv3 "
	  "layoutxlm levit lightglue lilt longformer luke lw_detr lw_detr_vit lxmert markuplm mask2former "
	  "maskformer maskformer-swin megatron-bert metaclip_2 mgp-str mimi mimi_decoder mlcd "
	  "mm-grounding-dino mobilebert mobilenet_v1 mobilenet_v2 mobilevit mobilevitv2 modernbert "
	  "modernvbert molmo2_adapter mpnet mra nemotron3_5_asr nemotron3_5_transcribe_word_timestamp "
	  "nemotron3_diarization nemotron_asr_streaming neomme neucodec nomic_bert nystromformer "
	  "omdet-turbo omniasr_ctc oneformer openai_privacy_filter owlv2 owlvit parakeet_ctc parakeet_rnnt "
	  "parakeet_tdt patchtsmixer patchtst pe_audio_video pe_video perceiver pixio pixtral "
	  "pocket_tts_audio_tokenizer pocket_tts_audio_tokenizer_decoder poolformer pp_doclayout_v2 "
	  "pp_doclayout_v3 pp_doclayout_v4 pp_lcnet pp_lcnet_v3 pp_lcnet_v4 pp_ocrv5_mobile_det "
	  "pp_ocrv5_mobile_rec pp_ocrv5_server_det pp_ocrv5_server_rec pp_ocrv6_medium_det "
	  "pp_ocrv6_small_det pp_ocrv6_small_rec pp_ocrv6_tiny_rec prompt_depth_anything pvt pvt_v2 "
	  "qwen2_5_omni_bigvgan qwen2_5_omni_dit qwen2_5_omni_token2wav radio regnet rembert resnet rf_detr "
	  "rf_detr_dinov2 roberta roberta-prelayernorm roc_bert roformer rt_detr rt_detr_resnet rt_detr_v2 "
	  "sam sam2 sam2_hiera_det_model sam2_mask_decoder sam2_video sam2_video_mask_decoder sam3 "
	  "sam3_detr_decoder sam3_lite_text_detr_decoder sam3_lite_text_mask_decoder sam3_mask_decoder "
	  "sam3_tracker sam3_tracker_mask_decoder sam3_tracker_video sam3_tracker_video_mask_decoder "
	  "sam3_video sam3_vit_model sam_hq sam_hq_mask_decoder sam_mask_decoder sapiens2 sapiens2_head "
	  "segformer seggpt sew sew-d siglip siglip2 slanet slanext speecht5_hifigan splinter squeezebert "
	  "superglue superpoint swiftformer swin swin2sr swinv2 table-transformer tapas textnet "
	  "time_series_transformer timesfm timesfm2_5 timesformer timm_backbone timm_wrapper tipsv2 "
	  "tipsv2_dpt tvp ultrabert ultravbert unispeech unispeech-sat univnet upernet uvdoc uvdoc_backbone "
	  "vibevoice_acoustic_tokenizer vibevoice_acoustic_tokenizer_decoder vibevoice_diffusion videomae "
	  "videomt videoprism vilt vision-text-dual-encoder visual_bert vit vit_mae vit_msn vitdet vitmatte "
	  "vitpose vitpose_backbone vits vivit vjepa2 wav2vec2 wav2vec2-bert wav2vec2-conformer wavlm "
	  "wavtokenizer xclip xcodec xcodec2 xlm xlm-roberta xlm-roberta-xl xmod yolos yoso zoedepth " },
	{ HF_CROSS, " bart bigbird_pegasus blenderbot blenderbot-small blip blip_text_model canary canary_decoder "
		    "cohere_asr dia dia_decoder encoder-decoder florence2 fsmt idefics led longt5 m2m_100 marian "
		    "mbart mllama mllama_text_model moonshine moonshine_streaming mt5 musicgen musicgen_decoder "
		    "musicgen_melody musicgen_melody_decoder mvp nllb-moe pegasus pegasus_x pix2struct "
		    "pix2struct_text_model plbart pop2piano pp_formulanet pp_formulanet_text prophetnet rag "
		    "seamless_m4t seamless_m4t_v2 speech-encoder-decoder speech_to_text speecht5 switch_transformers "
		    "t5 t5_gemma_module t5gemma t5gemma2 t5gemma2_decoder t5gemma2_encoder t5gemma2_text trocr udop "
		    "umt5 vision-encoder-decoder whisper " },
	{ HF_STATE, " delta_net falcon_mamba gated_deltanet gla gsa hgrn hgrn2 lightnet linear_attn mamba mamba2 "
		    "retnet rwkv rwkv5 rwkv6 rwkv7 ssm xlstm " },
	{ HF_HYBRID, " bailing_hybrid bailing_moe_linear bamba falcon_h1 glm5_next_text granitemoehybrid hymba "
		     "inkling2_loop_text inkling2_text inkling_text jamba jet_nemotron kimi_linear lara_mini lfm2_moe "
		     "lfm3 minimax minimax_m1 minimax_text_01 nemotron_h olmo_hybrid phi4flash plamo2 qwen3_5 "
		     "qwen3_5_moe qwen3_5_moe_text "
		     "qwen3_5_text qwen3_next qwen4_exp_text recurrent_gemma samba zamba zamba2 zaya " },
	{ HF_INDEXED, " axk2 deepseek_v32 dots3_note_text glm_moe_dsa hy_v4 hy_v4_vl_text mistral_large4_text " },
	{ HF_COMPRESSED, " deepseek_v4 " },
	{ HF_LOOPED, " dory hrm_text huginn_raven ouro " },
	{ HF_OTHER, " bark blt blt_global_transformer blt_local_decoder reformer xlnet " },
};

/* Parts of larger models. */
static bool is_part(const char *type)
{
	static const char *const ends[] = { "_vision",      "_vision_model",  "_vision_encoder", "_audio",
					    "_audio_model", "_audio_encoder", "_encoder",        "_text_model" };
	size_t len = strlen(type);

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (len > strlen(ends[i]) && strcmp(type + len - strlen(ends[i]), ends[i]) == 0)
			return true;
	return false;
}

enum hf_family hf_family_of(const char *model_type)
{
	char word[80];

	if (hf_defaults_of(model_type)->model_type)
		return HF_DECODER;
	snprintf(word, sizeof(word), " %s ", model_type);
	for (size_t i = 0; model_type[0] && i < sizeof(families) / sizeof(families[0]); i++)
		if (strstr(families[i].types, word))
			return families[i].family;
	return is_part(model_type) ? HF_ENCODER : HF_UNKNOWN;
}
